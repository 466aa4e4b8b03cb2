-- No statement can use these: the filters of listings are optional. Each run wrote the first one twice.
DROP INDEX IF EXISTS runs_open;
DROP INDEX IF EXISTS threads_resource;
