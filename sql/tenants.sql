-- name: tables_are_mine
-- Whether the role has the rights of the owner of the tables, and who that is.
SELECT pg_has_role(relowner, 'USAGE'), pg_get_userbyid(relowner)::text FROM pg_class WHERE oid = 'corpus'::regclass;

-- name: maintain
-- Open the rows of every tenant to the owner of the tables, until the transaction ends; to others it opens none.
SELECT set_config('evireform.maintenance', 'on', true);

-- name: make_role
-- A login role without a password; tells whether it was missing.
SELECT make_role(%(role)s);

-- name: settle_access
-- The rights that the memberships of a role ask for. Some dozens of GRANTs.
SELECT settle_access(%(role)s);

-- name: unsettled_roles
-- Members that lack a right, because a relation or a function is new. Reads the catalogue.
SELECT DISTINCT tenant_member.role_name
FROM tenant_member
JOIN pg_roles ON pg_roles.rolname = tenant_member.role_name
WHERE EXISTS (SELECT FROM granted_relations()
              WHERE NOT has_table_privilege(pg_roles.oid, relation, 'SELECT')
                 OR (tenant_member.access = 'writer' AND written
                     AND NOT has_table_privilege(pg_roles.oid, relation, 'DELETE')))
   OR (tenant_member.access = 'writer'
       AND EXISTS (SELECT FROM pg_proc WHERE pronamespace = quote_ident(current_schema())::regnamespace
                   AND prosecdef AND NOT has_function_privilege(pg_roles.oid, pg_proc.oid, 'EXECUTE')))
ORDER BY tenant_member.role_name;

-- name: tenant_overview
-- The tenants that the role may know of, with their members and how many corpora they have.
SELECT tenant.name, tenant.shares_answers,
       (SELECT count(*) FROM corpus WHERE corpus.tenant_id = tenant.tenant_id),
       ARRAY(SELECT tenant_member.role_name FROM tenant_member
             WHERE tenant_member.tenant_id = tenant.tenant_id ORDER BY tenant_member.role_name),
       ARRAY(SELECT tenant_member.access FROM tenant_member
             WHERE tenant_member.tenant_id = tenant.tenant_id ORDER BY tenant_member.role_name)
FROM tenant
ORDER BY tenant.name;

-- name: unprotected_relations
-- Tables and partitions with rows of tenants whose row-level security is not forced, or that have no policy: none.
SELECT relname::text FROM pg_class
WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relkind IN ('r', 'p')
  AND relname NOT IN ('tenant', 'tenant_member')
  AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = pg_class.oid AND attname = 'tenant_id')
  AND NOT (relrowsecurity AND relforcerowsecurity
           AND (relispartition OR EXISTS (SELECT FROM pg_policy WHERE polrelid = pg_class.oid)))
ORDER BY relname;

-- name: role_facts
-- Whether row-level security binds the role, how many tenants there are that it knows of, and its memberships.
SELECT row_security_active('corpus'), (SELECT count(*) FROM tenant),
       ARRAY(SELECT tenant.name || ' (' || tenant_member.access || ')'
             FROM tenant_member JOIN tenant USING (tenant_id)
             WHERE tenant_member.role_name = current_user ORDER BY tenant.name),
       (SELECT tenant_member.access FROM tenant_member
        WHERE tenant_member.role_name = current_user
          AND tenant_member.tenant_id = current_tenant(%(tenant)s));
