/** The data of the server, in the shapes of GitHub's REST API: fewer fields, all of which GitHub has. */
import type { components } from "@octokit/openapi-types"
import type { AppAuthentication, Installation } from "./AppAuthentication.ts"
import type { CheckRun, Comment, Event, Pull, Repository, User, WorkflowRun } from "./Repository.ts"

type Part<T> = T extends ReadonlyArray<infer A> ? ReadonlyArray<Part<A>> : T extends object ? { readonly [K in keyof T]?: Part<T[K]> } : T
type Shape<Name extends keyof components["schemas"]> = Part<components["schemas"][Name]>

/** Addresses as GitHub Enterprise has them: pages on the origin, the API below it. */
export interface Addresses {
  readonly origin: string
  readonly api: string
}

/** GitHub's ids of its GraphQL API; opaque. */
export const nodeId = (kind: string, id: number) => `${kind}_${Buffer.from(String(id)).toString("base64url")}`

const epoch = "2026-01-01T00:00:00Z"

const user = ({ origin }: Addresses, { id, login }: User) => ({
  id,
  login,
  node_id: nodeId("U", id),
  type: login.endsWith("[bot]") ? "Bot" : "User",
  site_admin: false,
  html_url: `${origin}/${login}`,
  avatar_url: `${origin}/avatars/u/${id}?v=4`
} satisfies Shape<"simple-user">)

export const permission = (addresses: Addresses, account: User, permission: "admin" | "write" | "read" | "none") => ({
  permission,
  role_name: permission,
  user: user(addresses, account)
} satisfies Shape<"repository-collaborator-permission">)

export const app = ({ origin }: Addresses, { appId, installations, slug }: AppAuthentication) => ({
  id: appId,
  slug,
  node_id: nodeId("A", appId),
  name: "Slipway",
  description: null,
  html_url: `${origin}/apps/${slug}`,
  external_url: origin,
  created_at: epoch,
  updated_at: epoch,
  permissions: { metadata: "read" },
  events: [],
  installations_count: installations.length
} satisfies Shape<"integration">)

export const installation = ({ api, origin }: Addresses, { appId, slug }: AppAuthentication, from: Installation) => ({
  id: from.id,
  app_id: appId,
  app_slug: slug,
  target_type: "Organization",
  events: [],
  single_file_name: null,
  account: { login: from.account, type: "Organization" },
  permissions: from.permissions as Shape<"app-permissions">,
  repository_selection: from.repositories === "all" ? "all" : "selected",
  access_tokens_url: `${api}/app/installations/${from.id}/access_tokens`,
  html_url: `${origin}/settings/installations/${from.id}`,
  created_at: epoch,
  updated_at: epoch,
  suspended_by: null,
  suspended_at: from.suspended ? epoch : null
} satisfies Shape<"installation">)

export const repository = (addresses: Addresses, from: Repository) => ({
  id: from.id,
  node_id: nodeId("R", from.id),
  name: from.name,
  full_name: from.fullName,
  private: from.private,
  owner: user(addresses, from.owner),
  html_url: `${addresses.origin}/${from.fullName}`,
  url: `${addresses.api}/repos/${from.fullName}`,
  clone_url: `${addresses.origin}/${from.fullName}.git`,
  default_branch: from.defaultBranch,
  archived: false,
  disabled: false,
  fork: false
} satisfies Shape<"full-repository">)

export const ref = ({ api }: Addresses, from: Repository, name: string, sha: string) => ({
  ref: name,
  node_id: nodeId("REF", from.id),
  url: `${api}/repos/${from.fullName}/git/${name}`,
  object: { type: "commit", sha, url: `${api}/repos/${from.fullName}/git/commits/${sha}` }
} satisfies Shape<"git-ref">)

export const branch = ({ api }: Addresses, from: Repository, name: string, sha: string) => ({
  name,
  commit: { sha, url: `${api}/repos/${from.fullName}/commits/${sha}` },
  protected: from.protectedBranches.has(name)
} satisfies Shape<"short-branch">)

/** As lists have it. */
export const pullSimple = (addresses: Addresses, from: Repository, pull: Pull) => {
  const { api, origin } = addresses
  const side = (ref: string, sha: string) => ({
    label: `${from.owner.login}:${ref}`,
    ref,
    sha,
    user: user(addresses, from.owner),
    repo: repository(addresses, from)
  })
  return {
    id: pull.id,
    node_id: nodeId("PR", pull.id),
    number: pull.number,
    url: `${api}/repos/${from.fullName}/pulls/${pull.number}`,
    html_url: `${origin}/${from.fullName}/pull/${pull.number}`,
    state: pull.state,
    locked: false,
    title: pull.title,
    body: pull.body,
    draft: pull.draft,
    user: user(addresses, pull.user),
    created_at: pull.createdAt,
    updated_at: pull.updatedAt,
    closed_at: pull.closedAt,
    merged_at: pull.mergedAt,
    head: pull.fork === undefined ? side(pull.headRef, pull.headSha) : {
      ...side(pull.headRef, pull.headSha),
      // The description of the API knows no deleted fork, which the API has.
      repo: (pull.fork === null ? null : { ...repository(addresses, from), full_name: pull.fork }) as ReturnType<typeof repository>
    },
    base: side(pull.baseRef, pull.baseSha)
  } satisfies Shape<"pull-request-simple">
}

export const pull = (addresses: Addresses, from: Repository, of: Pull) => {
  const { additions, changedFiles, commits, deletions } = of.counts
  const comments = from.comments.filter(({ number }) => number === of.number)
  return {
    ...pullSimple(addresses, from, of),
    merged: of.mergedAt !== null,
    mergeable: of.state === "closed" ? null : of.mergeable,
    rebaseable: null,
    mergeable_state: of.mergeable === null ? "unknown" : !of.mergeable ? "dirty" : of.draft ? "draft" : "clean",
    merged_by: null,
    maintainer_can_modify: false,
    commits,
    additions,
    deletions,
    changed_files: changedFiles,
    comments: comments.filter(({ path }) => path === null).length,
    review_comments: comments.filter(({ path }) => path !== null).length
  } satisfies Shape<"pull-request">
}

export const issueComment = (addresses: Addresses, from: Repository, comment: Comment) => ({
  id: comment.id,
  node_id: nodeId("IC", comment.id),
  url: `${addresses.api}/repos/${from.fullName}/issues/comments/${comment.id}`,
  html_url: `${addresses.origin}/${from.fullName}/pull/${comment.number}#issuecomment-${comment.id}`,
  issue_url: `${addresses.api}/repos/${from.fullName}/issues/${comment.number}`,
  user: comment.user === null ? null : user(addresses, comment.user),
  body: comment.body,
  created_at: comment.createdAt,
  updated_at: comment.updatedAt
} satisfies Shape<"issue-comment">)

export const review = (addresses: Addresses, from: Repository, comment: Comment) => ({
  id: comment.id,
  node_id: nodeId("PRR", comment.id),
  user: comment.user === null ? null : user(addresses, comment.user),
  body: comment.body,
  state: "COMMENTED",
  html_url: `${addresses.origin}/${from.fullName}/pull/${comment.number}#pullrequestreview-${comment.id}`,
  submitted_at: comment.createdAt
} satisfies Shape<"pull-request-review">)

export const annotation = ({ line, message, path }: CheckRun["annotations"][number]) => ({
  path,
  start_line: line,
  end_line: line,
  annotation_level: "failure",
  message
} satisfies Shape<"check-annotation">)

export const reviewComment = (addresses: Addresses, from: Repository, comment: Comment, path: string) => ({
  id: comment.id,
  node_id: nodeId("PRRC", comment.id),
  url: `${addresses.api}/repos/${from.fullName}/pulls/comments/${comment.id}`,
  path,
  // On all of a file GitHub leaves `null` here, which its own description does not say.
  ...(comment.line === null ? {} : { line: comment.line }),
  ...(comment.originalLine === null ? {} : { original_line: comment.originalLine }),
  html_url: `${addresses.origin}/${from.fullName}/pull/${comment.number}#discussion_r${comment.id}`,
  pull_request_url: `${addresses.api}/repos/${from.fullName}/pulls/${comment.number}`,
  // For deleted accounts GitHub leaves `null` here too, though its own description says otherwise.
  user: comment.user === null ? null : user(addresses, comment.user),
  body: comment.body,
  created_at: comment.createdAt,
  updated_at: comment.updatedAt
} satisfies Shape<"pull-request-review-comment">)

export const checkRun = ({ api, origin }: Addresses, from: Repository, run: CheckRun) => ({
  id: run.id,
  node_id: nodeId("CR", run.id),
  name: run.name,
  head_sha: run.headSha,
  external_id: "",
  url: `${api}/repos/${from.fullName}/check-runs/${run.id}`,
  html_url: `${origin}/${from.fullName}/runs/${run.id}`,
  details_url: null,
  status: run.status,
  conclusion: run.conclusion,
  started_at: run.startedAt,
  completed_at: run.completedAt,
  ...(run.log === null ? {} : { app: { slug: "github-actions" } })
} satisfies Shape<"check-run">)

export const workflowRun = ({ api, origin }: Addresses, from: Repository, run: WorkflowRun) => ({
  id: run.id,
  node_id: nodeId("WFR", run.id),
  name: run.name,
  head_sha: run.headSha,
  head_branch: run.headBranch,
  event: run.event,
  status: run.status,
  conclusion: run.conclusion,
  run_number: run.runNumber,
  run_attempt: 1,
  url: `${api}/repos/${from.fullName}/actions/runs/${run.id}`,
  html_url: `${origin}/${from.fullName}/actions/runs/${run.id}`,
  created_at: run.createdAt,
  updated_at: run.createdAt
} satisfies Shape<"workflow-run">)

export const event = ({ api }: Addresses, from: Repository, { actor, createdAt, id, payload, type }: Event) => ({
  id,
  type,
  actor: { id: actor.id, login: actor.login, gravatar_id: "", url: `${api}/users/${actor.login}`, avatar_url: "" },
  repo: { id: from.id, name: from.fullName, url: `${api}/repos/${from.fullName}` },
  payload,
  public: !from.private,
  created_at: createdAt
})
