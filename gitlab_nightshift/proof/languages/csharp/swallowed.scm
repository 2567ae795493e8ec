(catch_clause (catch_declaration type: (_) @types name: (_) @caught) body: (block) @body) @handler
(catch_clause (catch_declaration type: (_) @types .) body: (block) @body) @handler
(catch_clause . body: (block) @body) @handler
(catch_clause . (catch_filter_clause) body: (block) @body) @handler
