ALTER TABLE threads ADD COLUMN tenant_id TEXT;
CREATE INDEX threads_tenant ON threads (tenant_id) WHERE tenant_id IS NOT NULL;
