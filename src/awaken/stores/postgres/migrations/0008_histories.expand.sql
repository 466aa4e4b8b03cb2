-- Tickets are listed after their decision as well: the decided ones, and all of them.
CREATE INDEX tickets_decided ON tickets (created_at, ticket_id) WHERE status = 'decided';
CREATE INDEX tickets_created ON tickets (created_at, ticket_id);
-- What a commit changed in state: NULL means nothing, and an empty one that it was not kept, as of all earlier commits.
ALTER TABLE commits ADD COLUMN state BYTEA DEFAULT ''::bytea;
