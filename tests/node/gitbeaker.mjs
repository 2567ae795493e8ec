// Drives the stand-in by a client that is not ours: URL TOKEN PROJECT BRANCH USER -> JSON of what
// the client understood. A call that fails ends it.
import { Gitlab } from "@gitbeaker/rest";

const [host, token, project, branch, user] = process.argv.slice(2);
const api = new Gitlab({ host, token });
const seen = {};

const me = await api.Users.showCurrentUser();
seen.user = me.username;
seen.token = (await api.PersonalAccessTokens.show()).active;
seen.users = (await api.Users.all({ username: user })).map((each) => each.username);
seen.project = (await api.Projects.show(project)).path_with_namespace;
seen.branch = (await api.Branches.show(project, branch)).name;
const head = (await api.Branches.show(project, branch)).commit.id;
seen.commit = (await api.Commits.show(project, head)).title;
seen.compared = (await api.Repositories.compare(project, "main", branch)).commits.length;
seen.protected = (await api.ProtectedBranches.all(project)).map((each) => each.name);
seen.members = (await api.ProjectMembers.all(project, { includeInherited: true })).length > 0;

await api.ProjectLabels.create(project, "night-shift", "#1f4e79");
seen.labels = (await api.ProjectLabels.all(project)).map((each) => each.name);

const made = await api.MergeRequests.create(project, branch, "main", "A change", {
  description: "Why", labels: "night-shift", removeSourceBranch: true,
});
const iid = made.iid;
seen.opened = (await api.MergeRequests.all({ projectId: project, state: "opened" })).map((e) => e.iid);
seen.shown = (await api.MergeRequests.show(project, iid)).source_branch;
seen.edited = (await api.MergeRequests.edit(project, iid, { title: "Another title" })).title;
seen.diffs = (await api.MergeRequests.allDiffs(project, iid)).length;
await api.MergeRequestNotes.create(project, iid, "First");
seen.notes = (await api.MergeRequestNotes.all(project, iid)).map((each) => each.body);
const [thread] = await api.MergeRequestDiscussions.all(project, iid);
seen.thread = (await api.MergeRequestDiscussions.show(project, iid, thread.id)).notes.length;
const reply = await api.MergeRequestDiscussions.addNote(project, iid, thread.id, "Second");
seen.note = (await api.MergeRequestNotes.edit(project, iid, reply.id, { body: "Third" })).body;
seen.approved = (await api.MergeRequestApprovals.showConfiguration(project, {
  mergerequestIId: iid,
})).approved;

seen.rebased = (await api.MergeRequests.rebase(project, iid)).rebase_in_progress;
seen.busy = (await api.Users.showStatus({ iDOrUsername: me.id })).availability;
seen.rules = (await api.MergeRequestApprovals.allApprovalRules(project)).length;

const issue = await api.Issues.create(project, "Dashboard", { description: "Page" });
seen.issue = (await api.Issues.show(issue.iid, { projectId: project })).title;
seen.page = (await api.Issues.edit(project, issue.iid, { description: "Other" })).description;
seen.issues = (await api.Issues.all({ projectId: project })).length;
seen.system = Array.isArray(await api.IssueNotes.all(project, issue.iid));

const [night] = await api.PipelineSchedules.all(project);
seen.schedule = (await api.PipelineSchedules.show(project, night.id)).variables[0].key;
seen.variables = (await api.ProjectVariables.all(project)).length;
const pipeline = await api.Pipelines.create(project, "main", { variables: [] });
seen.pipelines = (await api.Pipelines.all(project)).length;
seen.pipeline = (await api.Pipelines.show(project, pipeline.id)).id === pipeline.id;
const [job] = await api.Jobs.all(project, { pipelineId: pipeline.id });
seen.job = (await api.Jobs.show(project, job.id)).name;
seen.played = (await api.Jobs.play(project, job.id)).status;

console.log(JSON.stringify(seen));
