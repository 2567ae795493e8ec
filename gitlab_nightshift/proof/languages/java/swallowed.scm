; Where errors are lost. The captures are explained in proof/reading/swallowed_errors.py.

(catch_clause (catch_formal_parameter (catch_type) @types name: (_) @caught) body: (block) @body) @handler
