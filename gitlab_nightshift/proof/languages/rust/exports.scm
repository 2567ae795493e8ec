((source_file [
  (const_item (visibility_modifier) @modifier name: (_) @constant)
  (static_item (visibility_modifier) @modifier name: (_) @constant)
  (type_item (visibility_modifier) @modifier name: (_) @constant)])
  (#eq? @modifier "pub"))
