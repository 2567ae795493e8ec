((field_declaration (modifier) @modifier (variable_declaration (variable_declarator name: (_) @field)))
  (#eq? @modifier "public"))
