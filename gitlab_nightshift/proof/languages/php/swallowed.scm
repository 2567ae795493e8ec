(catch_clause type: (type_list) @types name: (_) @caught body: (compound_statement) @body) @handler
(catch_clause type: (type_list) @types . body: (compound_statement) @body) @handler

; @file("…"); a file that is not there is what people ask for, and a deprecation is raised so
((error_suppression_expression) @dropped
 (#not-match? @dropped "unlink|fopen|mkdir|rmdir|trigger_error"))
