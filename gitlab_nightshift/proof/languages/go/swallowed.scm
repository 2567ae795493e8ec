; _ = f(), _ = err; what is only printed, closed or removed may fail
((assignment_statement left: (_) @names right: (expression_list . [(call_expression) (identifier)] @value)) @dropped
  (#match? @names "^_(\\s*,\\s*_)*$") (#match? @value "\\(|^(err|e)$")
  (#not-match? @value "\\b(Close|Flush|Fprint\\w*|Print\\w*|Write|WriteString|WriteByte|WriteRune|Setenv|Unsetenv|Remove|RemoveAll|Rollback|Sync|Shutdown|Kill|Process\\.\\w+|SetDeadline|SetReadDeadline|Signal|Stop|Copy|append|copy|len)\\("))

; n, _ := strconv.Atoi(s); functions whose last value is an error
((_ left: (expression_list) @names right: (expression_list . (call_expression) @value)) @dropped
  (#match? @names "[^_\\s,].*,\\s*_$")
  (#match? @value "\\b(strconv|json|os|io|ioutil|http|url|xml|yaml|hex|base64|sql|exec|net|bufio|csv|template|regexp|filepath|time)\\.[A-Z]\\w*\\(|\\.(Exec|Query|Scan|Decode|Unmarshal|Do|Read|ReadAll|Parse\\w*|Open|Fetch\\w*|Load\\w*|Save\\w*|Get\\w*|Send\\w*)\\(")
  (#not-match? @value "\\b(time\\.(Now|Since|Duration|Until)|os\\.(LookupEnv|Args|Getenv)|regexp\\.MustCompile|net\\.JoinHostPort|\\.(Load|LoadOrStore|Lookup|LookupEnv))\\("))

; if err != nil {}, if err != nil { return nil } where an error may be returned
((if_statement condition: (_) @condition consequence: (block) @empty) @dropped
  (#match? @condition "^\\w*[eE]rr\\w* != nil$"))
((if_statement condition: (_) @condition
  consequence: (block . (statement_list . (return_statement (expression_list (nil) .)) .))) @dropped
  (#match? @condition "^\\w*[eE]rr\\w* != nil$") (#set! "result" "\\berror\\)?$"))
((if_statement condition: (_) @condition
  consequence: (block . (statement_list . (continue_statement) .))) @dropped
  (#match? @condition "^\\w*[eE]rr\\w* != nil$") (#set! "result" "\\berror\\)?$"))

; a panic that nobody hears of
(expression_statement (call_expression function: (identifier) @name) @dropped (#eq? @name "recover"))
(assignment_statement right: (expression_list . (call_expression function: (identifier) @name) @dropped) (#eq? @name "recover"))
((if_statement initializer: (_) @head consequence: (block) @empty) @dropped (#match? @head "\\brecover\\(\\)$"))
((if_statement condition: (_) @head consequence: (block) @empty) @dropped (#match? @head "\\brecover\\(\\)"))
