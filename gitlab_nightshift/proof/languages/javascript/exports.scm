(export_specifier name: (_) @listed)
(export_specifier alias: (_) @listed)
(export_statement value: (identifier) @listed)
(export_statement declaration: (_ name: (_) @listed @constant))
(export_statement declaration: (_ (variable_declarator name: (identifier) @listed @constant)))

; module.exports = { a, b: c, d() {} }, exports.a = b
((assignment_expression left: (_) @listed) (#match? @listed "^(module\\.)?exports\\b"))
((assignment_expression left: (_) @left right: (identifier) @listed) (#match? @left "^(module\\.)?exports\\b"))
((assignment_expression left: (_) @left
  right: (object [(shorthand_property_identifier) @listed (pair key: (_) @listed) (pair value: (identifier) @listed)
    (method_definition name: (_) @listed)]))
  (#match? @left "^(module\\.)?exports\\b"))
