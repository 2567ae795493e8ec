((assignment left: (identifier) @name right: [(list (string (string_content) @listed)) (tuple (string (string_content) @listed))])
  (#eq? @name "__all__"))
((module (expression_statement (assignment left: (identifier) @constant right: (_))))
  (#match? @constant "^[A-Z][A-Z0-9_]+$"))
