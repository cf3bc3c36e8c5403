/** Answers as the servers form them. Fields that only one of them has are chosen by `flavour`. */
import type { Flavour } from "./Description.ts"
import type { Entry, Issue, Label, Pull, Repository, Review, Run, Status, User } from "./Repository.ts"

export interface Surroundings {
  readonly origin: string
  readonly flavour: Flavour
  /** Upper-case prefixes of titles that make a draft. */
  readonly draftPrefixes: ReadonlyArray<string>
}

/** Deleted accounts are shown so. */
export const GHOST: User = { id: -1, login: "Ghost" }

export const user = ({ origin }: Surroundings, { id, login }: User) => ({
  id,
  login,
  login_name: "",
  full_name: "",
  email: `${login}@noreply.test`,
  avatar_url: `${origin}/avatars/${id}`,
  html_url: `${origin}/${login}`,
  is_admin: false
})

export const repository = (at: Surroundings, one: Repository, mayPush: boolean) => ({
  id: one.id,
  owner: user(at, one.owner),
  name: one.name,
  full_name: one.fullName,
  private: one.private,
  html_url: `${at.origin}/${one.fullName}`,
  url: `${at.origin}/api/v1/repos/${one.fullName}`,
  clone_url: `${at.origin}/${one.fullName}.git`,
  default_branch: one.defaultBranch,
  permissions: { admin: mayPush, push: mayPush, pull: true },
  object_format_name: "sha1"
})

export const branch = (one: Repository, name: string, sha: string) => ({
  name,
  commit: { id: sha, message: "change\n", url: "" },
  protected: one.protectedBranches.has(name),
  required_approvals: 0,
  enable_status_check: false,
  status_check_contexts: [],
  user_can_push: !one.protectedBranches.has(name),
  user_can_merge: true,
  effective_branch_protection_name: one.protectedBranches.has(name) ? name : ""
})

export const label = (at: Surroundings, { id, name }: Label) => ({
  id,
  name,
  exclusive: false,
  is_archived: false,
  color: "00aabb",
  description: "",
  url: `${at.origin}/api/v1/labels/${id}`
})

export const isDraft = ({ draftPrefixes }: Surroundings, { title }: Issue): boolean =>
  draftPrefixes.some((prefix) => title.toUpperCase().startsWith(prefix))

const sideOf = (at: Surroundings, one: Repository, name: string, ref: string, sha: string) => ({
  label: name,
  ref,
  sha,
  repo_id: one.id,
  repo: repository(at, one, true)
})

export const pull = (at: Surroundings, one: Repository, issue: Issue & { readonly pull: Pull }, branches: ReadonlyMap<string, string>) => {
  const { pull } = issue
  const hidden = `refs/pull/${issue.number}/head`
  const own = sideOf(at, one, pull.headRef, branches.has(pull.headRef) ? pull.headRef : hidden, pull.headSha)
  const head = pull.isAGit === true
    ? { ...own, label: "", ref: hidden }
    : pull.fork === undefined
    ? own
    : pull.fork === null
    ? { ...own, ref: hidden, repo_id: -1, repo: null }
    : { ...own, repo_id: 77, repo: { ...own.repo, id: 77, full_name: pull.fork } }
  return {
    id: pull.id,
    number: issue.number,
    url: `${at.origin}/${one.fullName}/pulls/${issue.number}`,
    html_url: `${at.origin}/${one.fullName}/pulls/${issue.number}`,
    user: user(at, issue.user),
    title: issue.title,
    body: issue.body,
    labels: Array.from(issue.labels, (one) => label(at, one)),
    milestone: null,
    state: issue.state,
    draft: isDraft(at, issue),
    is_locked: false,
    comments: one.entries.filter(({ number, type }) => number === issue.number && type === "comment").length,
    mergeable: true,
    merged: pull.merged,
    merged_at: pull.merged ? issue.updatedAt : null,
    base: sideOf(at, one, pull.baseRef, pull.baseRef, branches.get(pull.baseRef) ?? ""),
    head,
    merge_base: pull.mergeBase,
    created_at: issue.createdAt,
    updated_at: issue.updatedAt,
    closed_at: issue.state === "closed" ? issue.updatedAt : null,
    due_date: null,
    requested_reviewers: Array.from(pull.reviewers).filter((name) => !name.startsWith("team:"))
      .map((login) => user(at, one.collaborators.find((other) => other.login === login) ?? GHOST)),
    requested_reviewers_teams: Array.from(pull.reviewers).filter((name) => name.startsWith("team:"))
      .map((name) => ({ id: 1, name: name.slice(5), permission: "write" })),
    ...(pull.fork === null
      ? {}
      : { additions: pull.counts.additions, deletions: pull.counts.deletions, changed_files: pull.counts.changedFiles }),
    ...(at.flavour === "forgejo" ? { flow: pull.isAGit === true ? 1 : 0 } : { content_version: 0 })
  }
}

const isPull = (issue: Issue): issue is Issue & { readonly pull: Pull } => issue.pull !== null

export const issueUrl = (at: Surroundings, one: Repository, issue: Issue): string =>
  `${at.origin}/${one.fullName}/${isPull(issue) ? "pulls" : "issues"}/${issue.number}`

export const issue = (at: Surroundings, one: Repository, issue: Issue) => ({
  id: issue.id,
  number: issue.number,
  url: `${at.origin}/api/v1/repos/${one.fullName}/issues/${issue.number}`,
  html_url: issueUrl(at, one, issue),
  user: user(at, issue.user),
  original_author: "",
  original_author_id: 0,
  title: issue.title,
  body: issue.body,
  labels: Array.from(issue.labels, (one) => label(at, one)),
  assignees: null,
  state: issue.state,
  comments: 0,
  created_at: issue.createdAt,
  updated_at: issue.updatedAt,
  closed_at: null,
  pull_request: isPull(issue)
    ? { merged: issue.pull.merged, merged_at: null, draft: isDraft(at, issue), html_url: issueUrl(at, one, issue) }
    : null,
  repository: { id: one.id, name: one.name, owner: one.owner.login, full_name: one.fullName }
})

const linkOf = (at: Surroundings, one: Repository, number: number) => {
  const found = one.issue(number)
  const url = found === undefined ? "" : issueUrl(at, one, found)
  return { url, issue_url: found?.pull === null ? url : "", pull_request_url: found?.pull === null ? "" : url }
}

export const comment = (at: Surroundings, one: Repository, entry: Entry) => {
  const { url, ...urls } = linkOf(at, one, entry.number)
  return {
    id: entry.id,
    html_url: `${url}#issuecomment-${entry.id}`,
    ...urls,
    user: user(at, entry.user),
    original_author: "",
    original_author_id: 0,
    body: entry.body,
    assets: [],
    created_at: entry.createdAt,
    updated_at: entry.updatedAt
  }
}

export const timelineEntry = (at: Surroundings, one: Repository, entry: Entry) => {
  const { assets: _, original_author: __, original_author_id: ___, ...common } = comment(at, one, entry)
  return {
    ...common,
    type: entry.type,
    label: entry.label === null ? null : label(at, entry.label),
    review_id: entry.review?.id ?? 0,
    old_title: "",
    new_title: ""
  }
}

export const review = (at: Surroundings, one: Repository, review: Review) => ({
  id: review.id,
  user: user(at, review.user),
  team: null,
  state: review.state,
  body: review.body,
  commit_id: "",
  stale: false,
  official: false,
  dismissed: false,
  comments_count: one.entries.filter((entry) => entry.type === "code" && entry.review === review).length,
  submitted_at: review.submittedAt,
  updated_at: review.submittedAt,
  html_url: `${linkOf(at, one, review.number).url}#issuecomment-${review.id}`,
  pull_request_url: linkOf(at, one, review.number).url
})

export const reviewComment = (at: Surroundings, one: Repository, entry: Entry) => ({
  id: entry.id,
  body: entry.body,
  user: user(at, entry.user),
  resolver: null,
  pull_request_review_id: entry.review?.id ?? 0,
  created_at: entry.createdAt,
  updated_at: entry.updatedAt,
  path: entry.path,
  commit_id: "",
  original_commit_id: "",
  diff_hunk: "",
  position: Math.max(entry.line, 0),
  original_position: Math.max(-entry.line, 0),
  html_url: `${linkOf(at, one, entry.number).url}#issuecomment-${entry.id}`,
  pull_request_url: linkOf(at, one, entry.number).url
})

export const status = (at: Surroundings, one: Repository, status: Status) => ({
  id: status.id,
  status: status.status,
  target_url: status.targetUrl,
  description: status.description,
  url: `${at.origin}/api/v1/repos/${one.fullName}/statuses/${status.sha}`,
  context: status.context,
  creator: user(at, { id: -2, login: `${at.flavour}-actions` }),
  created_at: status.at,
  updated_at: status.at
})

/** Gitea says with two words how a run stands. */
const wordsOf = (status: string) =>
  status === "running" ? { status: "in_progress", conclusion: "" } : { status: "completed", conclusion: status }

export const run = (at: Surroundings, one: Repository, run: Run) => {
  const html_url = `${at.origin}/${one.fullName}/actions/runs/${run.id}`
  const common = { id: run.id, event: run.event, head_branch: run.branch, head_sha: run.sha, run_number: run.id }
  return at.flavour === "forgejo"
    ? { ...common, name: run.name, status: run.status, workflow_id: "test.yaml", url: html_url }
    : {
      ...common,
      ...wordsOf(run.status),
      display_title: run.name,
      path: "test.yaml@refs/heads/main",
      html_url,
      url: `${at.origin}/api/v1/repos/${one.fullName}/actions/runs/${run.id}`,
      started_at: run.at,
      completed_at: run.at
    }
}

/** The newest attempt of a job, with the name of its branch, or `#N` for a pull request. */
export const task = (at: Surroundings, one: Repository, run: Run) => ({
  id: run.jobId,
  name: run.name,
  head_branch: run.branch,
  head_sha: run.sha,
  run_number: run.id,
  event: run.event,
  display_title: run.name,
  status: run.status,
  workflow_id: "test.yaml",
  url: `${at.origin}/${one.fullName}/actions/runs/${run.id}`,
  created_at: run.at,
  updated_at: run.at,
  run_started_at: run.at
})

export const job = (at: Surroundings, one: Repository, run: Run) => ({
  id: run.jobId,
  run_id: run.id,
  name: run.name,
  head_sha: run.sha,
  ...wordsOf(run.status),
  html_url: `${at.origin}/${one.fullName}/actions/runs/${run.id}/jobs/${run.jobId}`,
  created_at: run.at,
  started_at: run.at,
  completed_at: run.at
})
