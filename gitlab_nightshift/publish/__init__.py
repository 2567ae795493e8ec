"""The publish stage: check the bundle, make branch and commit, open the merge request."""

from gitlab_nightshift.publish.merge_request import check_templates
from gitlab_nightshift.publish.publish_context import PublishContext, SourceCheckout, read_source
from gitlab_nightshift.publish.publish_stage import publish

__all__ = ["PublishContext", "SourceCheckout", "check_templates", "publish", "read_source"]
