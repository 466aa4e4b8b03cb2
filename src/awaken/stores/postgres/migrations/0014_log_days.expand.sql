-- The log by days, so that old days are dropped instead of deleted row by row. The table of today becomes the first partition as it is: no row is copied.
-- The steps are transactions of their own. Nothing but the last one changes what other processes see, and each one can be run again.
ALTER TABLE commits ADD COLUMN IF NOT EXISTS day INT NOT NULL DEFAULT 0;
ALTER TABLE commits DROP CONSTRAINT IF EXISTS commits_undated;
ALTER TABLE commits ADD CONSTRAINT commits_undated CHECK (day < 1) NOT VALID;

-- step: reads the whole table, beside those who write to it
ALTER TABLE commits VALIDATE CONSTRAINT commits_undated;

-- step: commits that are older than their day, which no rule of days finds
CREATE INDEX CONCURRENTLY IF NOT EXISTS commits_first_older ON commits (place)
    WHERE committed_at < day * 86400000::bigint - 3600000;

-- step: the constraint proves that the table fits its range, so nothing is read under the lock
DO $$
DECLARE
    tomorrow INT := floor(extract(epoch FROM clock_timestamp()) / 86400)::int + 1;
BEGIN
    ALTER TABLE commits RENAME TO commits_first;
    CREATE TABLE commits (LIKE commits_first INCLUDING DEFAULTS INCLUDING STORAGE)
        PARTITION BY RANGE (day);
    ALTER TABLE commits ALTER COLUMN day
        SET DEFAULT floor(extract(epoch FROM clock_timestamp()) / 86400)::int;
    EXECUTE format(
        'ALTER TABLE commits ATTACH PARTITION commits_first FOR VALUES FROM (MINVALUE) TO (%s)',
        tomorrow
    );
    ALTER TABLE commits_first DROP CONSTRAINT commits_undated;
    CREATE TABLE commits_rest PARTITION OF commits (PRIMARY KEY (place)) DEFAULT;
    CREATE INDEX commits_rest_older ON commits_rest (place)
        WHERE committed_at < day * 86400000::bigint - 3600000;
END $$;
