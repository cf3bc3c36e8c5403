/** GitLab's answers, with the fields that the adapter reads and some that it does not. */
import * as Model from "./Project.ts"

/** The web address of the server. */
export const user = (origin: string, { id, username }: Model.User) => ({
  id,
  username,
  name: username,
  state: "active",
  avatar_url: null,
  web_url: `${origin}/${username}`
})

export const basicProject = (origin: string, { defaultBranch, id, path }: Model.Project) => ({
  id,
  name: path.split("/").at(-1),
  path: path.split("/").at(-1),
  path_with_namespace: path,
  default_branch: defaultBranch,
  http_url_to_repo: `${origin}/${path}.git`,
  web_url: `${origin}/${path}`
})

const urlOf = (origin: string, { path }: Model.Project, iid: number) => `${origin}/${path}/-/merge_requests/${iid}`

export const mergeRequestBasic = (origin: string, project: Model.Project, one: Model.MergeRequest) => ({
  id: one.id,
  iid: one.iid,
  project_id: project.id,
  title: one.title,
  description: one.description,
  state: one.state,
  created_at: one.createdAt,
  updated_at: one.updatedAt,
  merged_at: one.state === "merged" ? one.updatedAt : null,
  target_branch: one.targetBranch,
  source_branch: one.sourceBranch,
  author: user(origin, one.author),
  reviewers: one.reviewers.map((reviewer) => user(origin, reviewer)),
  source_project_id: one.sourceProject === undefined ? project.id : one.sourceProject,
  target_project_id: project.id,
  labels: [...one.labels],
  draft: Model.isDraft(one),
  detailed_merge_status: one.unpreparedReads > 0 ? "preparing" : "mergeable",
  sha: one.sha,
  prepared_at: one.unpreparedReads > 0 ? null : one.createdAt,
  web_url: urlOf(origin, project, one.iid)
})

export const mergeRequest = (origin: string, project: Model.Project, one: Model.MergeRequest) => ({
  ...mergeRequestBasic(origin, project, one),
  changes_count: String(one.counts.changedFiles),
  diff_refs: one.unpreparedReads > 0 || one.sha === null || one.baseSha === null
    ? null
    : { base_sha: one.baseSha, head_sha: one.sha, start_sha: one.baseSha }
})

export const note = (origin: string, project: Model.Project, one: Model.Note) => ({
  id: one.id,
  type: one.path === null ? null : "DiffNote",
  body: one.body,
  author: user(origin, one.author),
  created_at: one.createdAt,
  updated_at: one.updatedAt,
  system: one.system,
  noteable_id: one.number,
  noteable_type: one.of,
  project_id: project.id,
  ...one.path === null ? {} : {
    position: {
      position_type: "text",
      old_path: one.path,
      new_path: one.path,
      old_line: one.isOfOldLine ? one.line : null,
      new_line: one.isOfOldLine ? null : one.line
    }
  },
  confidential: one.internal,
  internal: one.internal,
  noteable_iid: one.number
})

export const pipeline = (origin: string, project: Model.Project, one: Model.Pipeline) => ({
  id: one.id,
  iid: one.id,
  project_id: project.id,
  sha: one.sha,
  ref: one.ref,
  status: one.status,
  source: one.source,
  created_at: one.createdAt,
  updated_at: one.updatedAt,
  web_url: `${origin}/${project.path}/-/pipelines/${one.id}`
})

export const status = (origin: string, project: Model.Project, one: Model.Status) => ({
  id: one.id,
  sha: one.sha,
  ref: project.defaultBranch,
  status: one.status,
  name: one.name,
  target_url: one.log === null ? "https://ci.example.com/1" : `${origin}/${project.path}/-/jobs/${one.id}`,
  description: null,
  created_at: new Date(0).toISOString(),
  started_at: null,
  finished_at: one.finishedAt,
  allow_failure: one.allowFailure,
  pipeline_id: one.pipeline
})

export const issue = (origin: string, project: Model.Project, one: Model.Issue) => ({
  id: one.id,
  iid: one.iid,
  project_id: project.id,
  title: one.title,
  description: one.description,
  state: "opened",
  created_at: one.createdAt,
  updated_at: one.updatedAt,
  labels: [...one.labels],
  author: user(origin, one.author),
  confidential: one.confidential,
  web_url: `${origin}/${project.path}/-/issues/${one.iid}`
})

export const labelEvent = (origin: string, one: Model.LabelEvent) => ({
  id: one.id,
  user: user(origin, one.user),
  created_at: one.createdAt,
  resource_type: one.of === "issues" ? "Issue" : "MergeRequest",
  resource_id: one.iid,
  label: { id: 1, name: one.label },
  action: one.action
})

export const event = (origin: string, project: Model.Project, one: Model.Event) => ({
  id: one.id,
  project_id: project.id,
  action_name: one.action,
  target_id: one.note?.id ?? null,
  target_iid: one.note?.id ?? null,
  target_type: one.note === null ? null : one.note.path === null ? "Note" : "DiffNote",
  author_id: one.author.id,
  target_title: one.title,
  created_at: one.createdAt,
  ...one.note === null ? {} : { note: note(origin, project, one.note) },
  author: user(origin, one.author),
  author_username: one.author.username
})
