-- Tickets are listed after their decision as well: the decided ones, and all of them.
CREATE INDEX tickets_decided ON tickets (created_at, ticket_id) WHERE status = 'decided';
CREATE INDEX tickets_created ON tickets (created_at, ticket_id);
