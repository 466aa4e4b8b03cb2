-- Stands in for the migration of managed configuration: replace this file with that one.
SELECT 1;
