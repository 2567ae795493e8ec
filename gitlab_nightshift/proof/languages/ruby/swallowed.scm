(rescue exceptions: (_) @types) @handler
(rescue variable: (_) @caught) @handler
(rescue body: (_) @body) @handler
(rescue) @handler

; value rescue nil; a conversion says no by an error
((rescue_modifier body: (_) @tried handler: (_) @default) @dropped
  (#not-match? @tried "Integer\\(|Float\\(|Date\\.parse|URI\\.parse|URI\\(|Time\\.parse|IPAddr\\.new|\\.\\w+\\?$"))
