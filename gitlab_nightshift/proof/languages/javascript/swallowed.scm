(catch_clause parameter: (_) @caught body: (statement_block) @body) @handler
(catch_clause . body: (statement_block) @body) @handler

; promise.catch(() => {}), promise.then(use, () => {}), stream.on("error", () => {})
((call_expression function: (member_expression property: (_) @name)
  arguments: (arguments (_) @listener .)) @dropped
  (#eq? @name "catch"))
((call_expression function: (member_expression property: (_) @name)
  arguments: (arguments . (_) . (_) @listener .)) @dropped
  (#eq? @name "then"))
((call_expression function: (member_expression property: (_) @name)
  arguments: (arguments . (_) @event (_) @listener .)) @dropped
  (#any-of? @name "on" "once" "addListener" "addEventListener")
  (#match? @event "[\"'`](error|unhandledRejection|uncaughtException|rejectionHandled)[\"'`]$"))
