(catch_clause (catch_formal_parameter (catch_type) @types name: (_) @caught) body: (block) @body) @handler
