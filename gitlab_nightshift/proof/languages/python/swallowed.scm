(except_clause value: (as_pattern (_) @types alias: (_) @caught) (block) @body) @handler
(except_clause value: [(identifier) (attribute) (tuple) (call) (subscript)] @types (block) @body) @handler
(except_clause . (block) @body) @handler

; contextlib.suppress(Exception)
((call function: (_) @function arguments: (argument_list (identifier) @type)) @dropped
  (#match? @function "(^|\\.)suppress$") (#any-of? @type "Exception" "BaseException"))
