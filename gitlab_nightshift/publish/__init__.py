"""Hall 3: check the bundle, make branch and commit, open the merge request."""

from gitlab_nightshift.publish.desk import Desk, Source, read_source
from gitlab_nightshift.publish.merge_request import check_templates
from gitlab_nightshift.publish.stage import publish

__all__ = ["Desk", "Source", "check_templates", "publish", "read_source"]
