/** Finds merge requests, reads them with their checks and comments, and opens drafts. */
import { MAX_OPEN_PULLS, openPullOf, type SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { summarize } from "@slipway/domain/source/rules/CheckSummary"
import { type Checks, MAX_COMMENT, noChecks, type PullRequest } from "@slipway/domain/source/schema/PullRequest"
import { LruCache } from "@slipway/domain/store/LruCache"
import { Counter } from "@slipway/domain/text/Text"
import { onStatus, type RestFailed } from "@slipway/rest-host/RestApi"
import { Duration, Effect, Schema } from "effect"
import * as Answers from "./Answers.ts"
import { isOpen, type MergeRequest } from "./Answers.ts"
import * as CommitChecks from "./Checks.ts"
import type { GitLabApi } from "./GitLabApi.ts"
import type { Access } from "./Projects.ts"
import type { ConditionalReads } from "./Reads.ts"
import { draftTitle, plainTitle, withoutQuickActions } from "./Text.ts"

type Counted = LruCache<string, Answers.Counts>

/** Merge requests whose changed lines are remembered. They change with their commits alone. */
export const counted = (): Counted => new LruCache<string, Answers.Counts>(10_000)

const noMergeRequest = (operation: string) =>
  new SourceHostError({ operation, detail: "There is no such merge request.", retryable: false })

/** A 404 on a project that is there. */
export const orNoMergeRequest = (operation: string) => onStatus(404, () => Effect.fail(noMergeRequest(operation)))

const placeOf = ({ id }: Access, number?: number): string => `/projects/${id}/merge_requests${number === undefined ? "" : `/${number}`}`

/** REST has a text with the number of files alone, which ends in `+` for large changes. */
const STATS = `query($id: MergeRequestID!) { mergeRequest(id: $id) { diffStatsSummary { additions deletions fileCount } } }`
const Stats = Schema.Struct({
  mergeRequest: Schema.NullOr(Schema.Struct({
    diffStatsSummary: Schema.NullOr(Schema.Struct({ additions: Counter, deletions: Counter, fileCount: Counter }))
  }))
})

const none: Answers.Counts = { additions: 0, deletions: 0, changedFiles: 0 }

const countsOf = Effect.fnUntraced(function*(api: GitLabApi, known: Counted, { token }: Access, { diff_refs: refs, id }: MergeRequest) {
  // GitLab has not prepared it, so that there is nothing to count yet.
  if (refs == null || refs.head_sha === null) return none
  const key = `${id} ${refs.base_sha} ${refs.start_sha} ${refs.head_sha}`
  const counts = known.get(key)
  if (counts !== undefined) return counts
  const { mergeRequest } = yield* api.query(token, STATS, { id: `gid://gitlab/MergeRequest/${id}` }, Stats)
  const stats = mergeRequest?.diffStatsSummary
  if (stats == null) return none
  const found = { additions: stats.additions, deletions: stats.deletions, changedFiles: stats.fileCount }
  known.set(key, found)
  return found
})

/** The merge request as a pull request, with its counts. */
const toPull = (api: GitLabApi, known: Counted, access: Access, mergeRequest: MergeRequest) =>
  Effect.map(countsOf(api, known, access, mergeRequest), (counts) => Answers.toPullRequest(mergeRequest, counts))

const readMergeRequest = (api: GitLabApi, access: Access, number: number) =>
  api.ask(Answers.MergeRequest, { method: "GET", path: placeOf(access, number), token: access.token })

const list = (api: GitLabApi, access: Access, query: Readonly<Record<string, string>>) =>
  api.ask(Answers.MergeRequests, {
    method: "GET",
    path: placeOf(access),
    token: access.token,
    query: { state: "opened", order_by: "created_at", sort: "desc", per_page: 100, ...query }
  })

/** The open merge request of the branch; `null`: none. */
export const findOpen = Effect.fnUntraced(function*(api: GitLabApi, known: Counted, access: Access, headRef: string) {
  const found = (yield* list(api, access, { source_branch: headRef })).find((one) =>
    one.source_branch === headRef && one.source_project_id === access.id
  )
  if (found === undefined) return null
  const mergeRequest = yield* readMergeRequest(api, access, found.iid)
  return isOpen(mergeRequest) ? yield* toPull(api, known, access, mergeRequest) : null
})

/** The newest open ones whose branch is in the project itself. */
export const listOpen = (api: GitLabApi, access: Access) =>
  Effect.map(list(api, access, {}), (found) =>
    found.filter(({ source_project_id }) => source_project_id === access.id)
      .slice(0, MAX_OPEN_PULLS)
      .map(({ draft, iid, source_branch: headRef, title }) =>
        openPullOf({ number: iid, title: draft ? plainTitle(title) : title, headRef })
      ))

const SourceProject = Schema.Struct({ path_with_namespace: Schema.String })

/** The pull request and the project of its branch, which is `null` also if the token may not know of it. */
export const readSource = Effect.fnUntraced(function*(api: GitLabApi, known: Counted, access: Access, number: number) {
  const mergeRequest = yield* readMergeRequest(api, access, number)
  const pullRequest = yield* toPull(api, known, access, mergeRequest)
  const source = mergeRequest.source_project_id
  if (source === null || source === access.id) return { pullRequest, headRepo: source === null ? null : access.path }
  const headRepo = yield* api.ask(SourceProject, { method: "GET", path: `/projects/${source}`, token: access.token }).pipe(
    Effect.map(({ path_with_namespace }) => path_with_namespace),
    onStatus(404, () => Effect.succeed(null))
  )
  return { pullRequest, headRepo }
})

/** The branch with exactly this name; `null`: the project has no such branch. */
export const readBranch = (api: GitLabApi, { id, token }: Access, name: string) =>
  api.ask(Answers.Branch, { method: "GET", path: `/projects/${id}/repository/branches/${encodeURIComponent(name)}`, token }).pipe(
    Effect.map((branch) => branch.name === name ? { headSha: branch.commit.id, isProtected: branch.protected } : null)
  )

/** The token may not read pipelines, which differs from having none. */
const hidden: Checks = {
  ...noChecks,
  label: "Checks unknown",
  state: "error",
  error: "The token may not read pipelines, or the project has CI/CD turned off."
}

/** The states in which GitLab is still computing. */
const COMPUTING = new Set(["approvals_syncing", "checking", "preparing"])

export const readDetails = Effect.fnUntraced(
  function*(api: GitLabApi, known: Counted, reads: ConditionalReads, access: Access, number: number) {
    const path = placeOf(access, number)
    const { token } = access
    const readPullAndChecks = Effect.gen(function*() {
      const mergeRequest = yield* reads.one({ path, schema: Answers.MergeRequest, token })
      const [pullRequest, checked] = yield* Effect.all(
        [toPull(api, known, access, mergeRequest), CommitChecks.read(reads, access, mergeRequest)],
        { concurrency: "unbounded" }
      )
      const checks = checked === null
        ? hidden
        : summarize(CommitChecks.toWorkflowRuns(checked, mergeRequest), CommitChecks.toCheckRuns(checked))
      return { mergeRequest, pullRequest, checks }
    })
    const [{ checks, mergeRequest, pullRequest }, notes] = yield* Effect.all([
      readPullAndChecks,
      reads.all({
        path: `${path}/notes`,
        // The newest if there are too many.
        query: { activity_filter: "only_comments", order_by: "created_at", sort: "desc" },
        schema: Answers.notes(MAX_COMMENT + 1),
        token
      })
    ], { concurrency: "unbounded" })
    return {
      pullRequest,
      checks,
      comments: notes.filter(({ system }) => !system).map((note) => Answers.toComment(mergeRequest.web_url, note)).sort((a, b) =>
        a.createdAt < b.createdAt ? -1 : a.createdAt > b.createdAt ? 1 : a.id - b.id
      ),
      pending: isOpen(mergeRequest) && (mergeRequest.diff_refs == null || COMPUTING.has(mergeRequest.detailed_merge_status ?? ""))
    }
  }
)

/** GitLab prepares a new merge request and notices pushes in the background, mostly within a second. */
const LOOKS = 5
const BETWEEN_LOOKS = Duration.millis(400)

/** The merge request once GitLab has prepared its changes at this commit, or as it is after some looks. */
const settled = Effect.fnUntraced(function*(api: GitLabApi, access: Access, first: MergeRequest, headSha: string) {
  let mergeRequest = first
  const isSettled = () => !isOpen(mergeRequest) || mergeRequest.diff_refs?.head_sha === headSha
  for (let look = 1; look < LOOKS && !isSettled(); look++) {
    yield* Effect.sleep(BETWEEN_LOOKS)
    mergeRequest = yield* readMergeRequest(api, access, first.iid)
  }
  return mergeRequest
})

export const pushed = Effect.fnUntraced(function*(api: GitLabApi, known: Counted, access: Access, number: number, headSha: string) {
  const mergeRequest = yield* settled(api, access, yield* readMergeRequest(api, access, number), headSha)
  const pullRequest = yield* toPull(api, known, access, mergeRequest)
  return isOpen(mergeRequest) ? { ...pullRequest, headSha } : pullRequest
})

/** Explains a refusal whose text at GitLab is not enough. */
const explain = Effect.fnUntraced(function*(
  api: GitLabApi,
  known: Counted,
  operation: string,
  access: Access,
  headRef: string,
  failure: RestFailed
) {
  if (!/already exists/iu.test(failure.detail)) return yield* failure
  const open = yield* Effect.orElseSucceed(findOpen(api, known, access, headRef), () => null)
  const detail = `There is an open merge request for the branch "${headRef}" already${open === null ? "" : `: ${open.url}`}.`
  return yield* new SourceHostError({ operation, detail, retryable: false })
})

export const openDraft = Effect.fnUntraced(function*(
  api: GitLabApi,
  known: Counted,
  operation: string,
  access: Access,
  { baseRef, body, headRef, headSha, title }: Parameters<SourceHost["Service"]["openDraftPullRequest"]>[1]
) {
  // GitLab opens merge requests between branches that are not there.
  for (const name of [headRef, baseRef]) {
    yield* readBranch(api, access, name).pipe(
      onStatus(404, () => Effect.succeed(null)),
      Effect.filterOrFail(
        (branch) => branch !== null,
        () => new SourceHostError({ operation, detail: `${access.path} has no branch "${name}".`, retryable: false })
      )
    )
  }
  const opened = yield* api.ask(Answers.MergeRequest, {
    method: "POST",
    path: placeOf(access),
    token: access.token,
    body: {
      title: draftTitle(title),
      description: withoutQuickActions(body),
      source_branch: headRef,
      target_branch: baseRef,
      remove_source_branch: false
    }
  }).pipe(onStatus(409, (failure) => explain(api, known, operation, access, headRef, failure)))
  const mergeRequest = yield* settled(api, access, opened, headSha)
  const pullRequest = yield* toPull(api, known, access, mergeRequest)
  return pullRequest.headSha === "" ? { ...pullRequest, headSha } : pullRequest
})

const Label = Schema.Struct({ name: Schema.String })

/** Adding an unknown label would make it, so each is looked up. A number is also taken for an id. */
const hasLabel = (api: GitLabApi, { id, token }: Access, name: string) =>
  api.ask(Label, { method: "GET", path: `/projects/${id}/labels/${encodeURIComponent(name)}`, token }).pipe(
    Effect.map((label) => label.name === name),
    onStatus(404, () => Effect.succeed(false))
  )

const isUserName = (name: string): boolean => /^[\w.-]{1,255}$/u.test(name)

/** The id of the account with this name; `null`: GitLab has no such account. */
const userOf = Effect.fnUntraced(function*(api: GitLabApi, { token }: Access, name: string) {
  if (!isUserName(name)) return null
  const found = yield* api.ask(Answers.Users, { method: "GET", path: "/users", token, query: { username: name } })
  return found.find(({ username }) => username.toLowerCase() === name.toLowerCase())?.id ?? null
})

/** GitLab leaves out reviewers who may not read the merge request, and all but the first without a paid plan. */
export const decorate = Effect.fnUntraced(function*(
  api: GitLabApi,
  access: Access,
  number: number,
  { labels, reviewers }: Parameters<SourceHost["Service"]["decoratePullRequest"]>[2]
) {
  const known = yield* Effect.filter(labels, (name) => hasLabel(api, access, name))
  const users = yield* Effect.forEach(reviewers, (name) => Effect.map(userOf(api, access, name), (id) => ({ id, name })))
  const before = yield* readMergeRequest(api, access, number)
  const present = (before.reviewers ?? []).map(({ id }) => id)
  const added = users.flatMap(({ id }) => id === null || present.includes(id) ? [] : [id])
  const fresh = known.filter((name) => !before.labels.includes(name))
  const after = fresh.length === 0 && added.length === 0 ? before : yield* api.ask(Answers.MergeRequest, {
    method: "PUT",
    path: placeOf(access, number),
    token: access.token,
    body: {
      ...(fresh.length === 0 ? {} : { add_labels: fresh }),
      ...(added.length === 0 ? {} : { reviewer_ids: [...new Set([...present, ...added])] })
    }
  })
  const taken = new Set((after.reviewers ?? []).map(({ id }) => id))
  return [
    ...labels.filter((name) => !known.includes(name)),
    ...users.flatMap(({ id, name }) => id !== null && taken.has(id) ? [] : [name])
  ]
})

/** A title without the marks of a draft ends the draft. */
export const markReady = Effect.fnUntraced(function*(api: GitLabApi, known: Counted, access: Access, number: number) {
  const mergeRequest = yield* readMergeRequest(api, access, number)
  if (!isOpen(mergeRequest) || !mergeRequest.draft) return yield* toPull(api, known, access, mergeRequest)
  const ready = yield* api.ask(Answers.MergeRequest, {
    method: "PUT",
    path: placeOf(access, number),
    token: access.token,
    body: { title: plainTitle(mergeRequest.title) }
  })
  const pullRequest: PullRequest = yield* toPull(api, known, access, ready)
  return pullRequest
})
