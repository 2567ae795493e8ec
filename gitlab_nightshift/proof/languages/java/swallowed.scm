; Where an error ends. See flags/swallowed_errors.py for what the captures mean.

(catch_clause (catch_formal_parameter (catch_type) @types name: (_) @caught) body: (block) @body) @handler
