-- Ids of tenants begin with the tenant; older rows and records are changed by `sql/tenant_ids.py`.
SELECT 1;
