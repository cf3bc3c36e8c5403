/**
 * The pipelines and jobs of a merge request's newest commit. Jobs and the statuses of other programs are commit statuses at GitLab.
 * https://docs.gitlab.com/api/commits/#list-all-commit-statuses
 */
import type { CheckRun, WorkflowRun } from "@slipway/domain/source/schema/PullRequest"
import { Counter } from "@slipway/domain/text/Text"
import { onStatus } from "@slipway/rest-host/RestApi"
import { Effect, Schema } from "effect"
import type { MergeRequest } from "./Answers.ts"
import type { Access } from "./Projects.ts"
import type { ConditionalReads } from "./Reads.ts"

const nullable = Schema.NullOr(Schema.String)

const Pipelines = Schema.Array(Schema.Struct({
  id: Counter,
  iid: Schema.optionalKey(Counter),
  sha: Schema.String,
  ref: Schema.String,
  status: Schema.String,
  source: Schema.optionalKey(nullable),
  created_at: Schema.String,
  updated_at: Schema.String,
  web_url: Schema.String
}))
type Pipeline = (typeof Pipelines.Type)[number]

const Statuses = Schema.Array(Schema.Struct({
  id: Counter,
  status: Schema.String,
  name: Schema.String,
  description: Schema.optionalKey(nullable),
  target_url: nullable,
  started_at: nullable,
  finished_at: nullable,
  allow_failure: Schema.Boolean,
  pipeline_id: Schema.optionalKey(Schema.NullOr(Counter))
}))
/** A job, or a status that another program set. */
export type Status = (typeof Statuses.Type)[number]

const Commit = Schema.Struct({ parent_ids: Schema.Array(Schema.String) })

/** Everything that checked a commit. */
export interface Checked {
  readonly pipelines: ReadonlyArray<Pipeline>
  readonly statuses: ReadonlyArray<Status>
}

/**
 * GitLab's states that nothing but a person ends. `manual`: a job that waits for a person, which keeps nothing else waiting, as on
 * GitLab's own pages of optional jobs.
 */
const CONCLUSIONS: Readonly<Record<string, string>> = {
  success: "success",
  failed: "failure",
  canceled: "cancelled",
  skipped: "skipped",
  manual: "skipped"
}

/** GitLab's state as `CheckSummary` reads it. A failure that is allowed does not count. Other states are GitLab's words. */
const ended = (status: string, isAllowed: boolean): Pick<typeof CheckRun.Type, "conclusion" | "status"> => {
  const conclusion = Object.hasOwn(CONCLUSIONS, status) ? CONCLUSIONS[status] : undefined
  if (conclusion === undefined) return { status }
  return { status: "completed", conclusion: isAllowed && (conclusion === "failure" || conclusion === "cancelled") ? "neutral" : conclusion }
}

/** The ids of pipelines that ended. Their jobs that have not begun never will, such as those after a manual job. */
const endedPipelines = (pipelines: ReadonlyArray<Pipeline>): ReadonlySet<number> =>
  new Set(pipelines.filter(({ status }) => Object.hasOwn(CONCLUSIONS, status)).map(({ id }) => id))

export const toCheckRuns = ({ pipelines, statuses }: Checked): ReadonlyArray<typeof CheckRun.Type> => {
  const over = endedPipelines(pipelines)
  return statuses.map((status) => ({
    id: status.id,
    name: status.name,
    url: status.target_url ?? "",
    ...status.status === "created" && over.has(status.pipeline_id ?? -1)
      ? { status: "completed", conclusion: "skipped" }
      : ended(status.status, status.allow_failure),
    ...(status.started_at === null ? {} : { startedAt: status.started_at }),
    ...(status.finished_at === null ? {} : { completedAt: status.finished_at })
  }))
}

export const toWorkflowRuns = ({ pipelines }: Checked, { source_branch }: MergeRequest): ReadonlyArray<typeof WorkflowRun.Type> =>
  pipelines.map((pipeline) => ({
    id: pipeline.id,
    name: `Pipeline #${pipeline.id}`,
    ...ended(pipeline.status, false),
    event: pipeline.source ?? "unknown",
    // A merge request's pipeline has a ref of its own.
    headBranch: source_branch,
    headSha: pipeline.sha,
    runNumber: pipeline.iid ?? pipeline.id,
    createdAt: pipeline.created_at,
    updatedAt: pipeline.updated_at,
    url: pipeline.web_url
  }))

/** A pipeline of the result of a merge. Its commit is GitLab's, with the newest commit of the merge request as a parent. */
const OF_MERGE = /^refs\/merge-requests\/\d+\/(?:merge|train)$/u

/** The newest pipeline of each ref counts. Other programs' statuses are in pipelines of their own. */
const newestOfRefs = (pipelines: ReadonlyArray<Pipeline>): ReadonlyArray<Pipeline> =>
  [
    ...Map.groupBy(pipelines, ({ ref, source }) => `${source === "external"} ${ref}`).values()
  ].flatMap((all) => all.reduce((a, b) => a.id > b.id ? a : b))

/** `null`: they may not be read. */
export const read = Effect.fnUntraced(function*(reads: ConditionalReads, { id, token }: Access, mergeRequest: MergeRequest) {
  const { iid, sha } = mergeRequest
  if (sha === null) return { pipelines: [], statuses: [] }
  const project = `/projects/${id}`
  return yield* Effect.gen(function*() {
    const all = yield* reads.one({ path: `${project}/merge_requests/${iid}/pipelines`, schema: Pipelines, token })
    const merged = all.filter(({ ref }) => OF_MERGE.test(ref)).reduce<Pipeline | null>((a, b) => a === null || b.id > a.id ? b : a, null)
    const isOfHead = merged !== null &&
      (yield* reads.one({ path: `${project}/repository/commits/${merged.sha}`, query: { stats: false }, schema: Commit, token }))
        .parent_ids.includes(sha)
    const ofHead = all.filter((pipeline) => pipeline.sha === sha || isOfHead && pipeline.id === merged?.id)
    const pipelines = newestOfRefs(ofHead)
    const replaced = new Set(ofHead.filter((pipeline) => !pipelines.includes(pipeline)).map(({ id }) => id))
    const commits = [...new Set([sha, ...pipelines.map((pipeline) => pipeline.sha)])]
    const statuses = yield* Effect.forEach(
      commits,
      (commit) => reads.all({ path: `${project}/repository/commits/${commit}/statuses`, schema: Statuses, token }),
      { concurrency: 2 }
    )
    return { pipelines, statuses: statuses.flat().filter(({ pipeline_id }) => !replaced.has(pipeline_id ?? -1)) } satisfies Checked
  }).pipe(onStatus(403, () => Effect.succeed(null)))
})
