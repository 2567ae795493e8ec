(catch_block (identifier) @caught (_) @types (block) @body) @handler

; runCatching { … }.getOrNull()
((call_expression (navigation_expression (call_expression . (identifier) @tries) (identifier) @name)) @dropped
  (#eq? @tries "runCatching") (#any-of? @name "getOrNull" "getOrDefault"))
