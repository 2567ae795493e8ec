; let _ = f(); f().ok(); what is only written, sent or removed may fail
((let_declaration pattern: _ @name
  value: [(call_expression) (macro_invocation) (await_expression)] @value) @dropped
  (#eq? @name "_")
  (#not-match? @value "\\b(write|writeln)!|\\.(send|try_send|join|flush|remove|set|take|insert|kill|wait|shutdown|replace|push|lock|get_or_init)\\(|remove_(file|dir)|\\binit\\(|set_logger|try_init"))
((expression_statement (call_expression function: (field_expression field: (_) @name)) @value) @dropped
  (#eq? @name "ok")
  (#not-match? @value "\\b(write|writeln)!|\\.(send|try_send|join|flush|remove|set|take|insert|kill|wait|shutdown|replace|push|lock|get_or_init)\\(|remove_(file|dir)|\\binit\\(|set_logger|try_init"))

; if let Err(e) = f() {}
((if_expression condition: (_) @condition consequence: (block) @empty) @dropped
  (#match? @condition "^let Err\\("))

; Err(_) => {}, Err(_) => continue, Err(_) => Ok(Vec::new())
((match_arm pattern: (_) @pattern value: (_) @empty) @dropped (#match? @pattern "^Err\\(\\w*\\)$"))
((match_arm pattern: (_) @pattern value: (_) @answer) @dropped
  (#match? @pattern "^Err\\(\\w*\\)$") (#match? @answer "^[{\\s]*(return\\s+)?Ok\\(.*\\)[;\\s}]*$"))
