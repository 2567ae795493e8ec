(catch_clause (case_block (case_clause pattern: (_) @pattern body: (_) @body) @handler))
(catch_clause (case_block (case_clause pattern: (_) @pattern . ) @handler))
((call_expression function: (field_expression field: (_) @name)
  arguments: (case_block (case_clause pattern: (_) @pattern body: (_) @body) @handler))
  (#any-of? @name "recover" "recoverWith" "handle"))

; Try { … }.toOption, Try { … }.getOrElse(0); a conversion on one line says no by an error
((field_expression value: (call_expression function: (_) @tries arguments: (_) @tried) field: (_) @name) @dropped
  (#eq? @tries "Try") (#eq? @name "toOption")
  (#not-match? @tried "^[^\\n]*(\\.to(Int|Long|Double|Float|Boolean)\\b|parse|fromString|valueOf|BigDecimal\\()[^\\n]*$"))
((call_expression
  function: (field_expression value: (call_expression function: (_) @tries arguments: (_) @tried) field: (_) @name)
  arguments: (arguments . (_) @default)) @dropped
  (#eq? @tries "Try") (#any-of? @name "getOrElse" "orElse")
  (#not-match? @tried "^[^\\n]*(\\.to(Int|Long|Double|Float|Boolean)\\b|parse|fromString|valueOf|BigDecimal\\()[^\\n]*$"))
