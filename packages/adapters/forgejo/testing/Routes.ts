/** The part of the API that the server has: who may ask for what, and what is answered. */
import type { Entry, Issue, Pull, Repository, User } from "./Repository.ts"
import { pull as shapeOfPull, type Surroundings } from "./Shapes.ts"
import * as Shapes from "./Shapes.ts"

export interface Answer {
  readonly status: number
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

export interface Token {
  readonly user: User
  /** Such as `write:repository`; `all`. */
  readonly scopes: ReadonlySet<string>
}

export interface Organization {
  readonly labels: Array<{ readonly id: number; readonly name: string }>
  readonly teams: Set<string>
}

export interface World extends Surroundings {
  readonly version: string
  /** Entries on a page, at most: an operator can change it. */
  readonly pageLimit: number
  readonly repositories: ReadonlyArray<Repository>
  readonly organizations: ReadonlyMap<string, Organization>
  readonly users: ReadonlyArray<User>
  readonly now: () => number
}

export interface Call {
  readonly method: string
  /** Below the API's address. */
  readonly path: string
  readonly query: URLSearchParams
  readonly body: any
  readonly range: string | undefined
}

interface Context {
  readonly world: World
  readonly call: Call
  readonly params: Readonly<Record<string, string>>
  readonly token: Token
}

interface Below extends Context {
  readonly repository: Repository
}

const documentation = (world: World) => `${world.origin}/api/swagger`
export const refuse = (world: World, status: number, message: string): Answer => ({
  status,
  body: { message, url: documentation(world) }
})
const notFound = (world: World, ...errors: ReadonlyArray<string>): Answer => ({
  status: 404,
  body: { message: "The target couldn't be found.", url: documentation(world), errors }
})
const ok = (body: unknown): Answer => ({ status: 200, body })

const same = (a: string, b: string | undefined) => a.toLowerCase() === b?.toLowerCase()

/** By its present or a former name, in any case of letters. */
export const findRepository = ({ repositories }: Pick<World, "repositories">, owner: string, name: string): Repository | undefined => {
  const theirs = repositories.filter((one) => same(one.owner.login, owner))
  return theirs.find((one) => same(one.name, name)) ?? theirs.find(({ formerNames }) => formerNames.some((former) => same(former, name)))
}

/** An account's access to a repository. */
export const accessOf = (repository: Repository, { id }: User): "owner" | "admin" | "write" | "read" | "none" =>
  repository.collaborators.find((one) => one.id === id)?.permission ?? (repository.private ? "none" : "read")

const MAY_WRITE = new Set(["owner", "admin", "write"])
export const mayWrite = (repository: Repository, user: User): boolean => MAY_WRITE.has(accessOf(repository, user))

/** One page, with the number of all entries. Only some lists have links. */
const page = <A>({ call: { query }, world }: Context, items: ReadonlyArray<A>, shape: (item: A) => unknown, links = true): Answer => {
  const limit = Math.min(Math.max(Number(query.get("limit") ?? 30) || 30, 1), world.pageLimit)
  const number = Math.max(Number(query.get("page") ?? 1) || 1, 1)
  const more = new URLSearchParams(query)
  more.set("page", String(number + 1))
  return {
    ...ok(items.slice((number - 1) * limit, number * limit).map(shape)),
    headers: {
      "x-total-count": String(items.length),
      ...(links && number * limit < items.length ? { link: `<${world.origin}/api/v1/x?${more}>; rel="next"` } : {})
    }
  }
}

/** Entries that changed since. */
const isChanged = ({ query }: Call, { updatedAt }: { readonly updatedAt: string }): boolean =>
  Date.parse(updatedAt) >= Date.parse(query.get("since") ?? "1970-01-01T00:00:00Z")

// --- pull requests ---------------------------------------------------------------------------------------------------

const shown = async ({ repository, world }: Below, issue: Issue & { readonly pull: Pull }) =>
  shapeOfPull(world, repository, issue, await repository.bare.branches())

const openPull = async (context: Below): Promise<Answer> => {
  const { call: { body }, repository, token, world } = context
  const { base, body: text = "", head, title } = body ?? {}
  if (typeof title !== "string" || title === "") return refuse(world, 422, "[Title]: Required")
  if (head === base) return refuse(world, 422, "Invalid PullRequest: There are no changes between the head and the base")
  const branches = await repository.bare.branches()
  const [baseSha, headSha] = [branches.get(base), branches.get(head)]
  if (baseSha === undefined) return notFound(world, "BaseNotExist")
  if (headSha === undefined) return notFound(world, "HeadNotExist")
  const existing = repository.pulls.find(({ pull, state }) =>
    state === "open" && pull.fork === undefined && pull.headRef === head && pull.baseRef === base
  )
  if (existing !== undefined) {
    const about = `id: ${existing.pull.id}, issue_id: ${existing.number}, head_branch: ${head}, base_branch: ${base}`
    return refuse(world, 409, `pull request already exists for these targets [${about}]`)
  }
  const issue = repository.open({
    title: Buffer.from(title).subarray(0, 255).toString(),
    body: text,
    user: token.user,
    pull: {
      baseRef: base,
      headRef: head,
      headSha,
      mergeBase: await repository.bare.git(["merge-base", baseSha, headSha]),
      counts: await repository.bare.counts(baseSha, headSha)
    }
  })
  return { status: 201, body: await shown(context, issue as Issue & { readonly pull: Pull }) }
}

const listPulls = async (context: Below): Promise<Answer> => {
  const { call: { query }, repository, world } = context
  const state = query.get("state") ?? "open"
  const pulls = repository.pulls.filter((one) => state === "all" || one.state === state)
  const ordered = query.get("sort") === "oldest"
    ? pulls
    : query.get("sort") === "recentupdate"
    ? pulls.toSorted((a, b) => a.updatedAt < b.updatedAt ? 1 : -1)
    : pulls.toReversed()
  const branches = await repository.bare.branches()
  return page(context, ordered, (one) => shapeOfPull(world, repository, one, branches))
}

const withPull = (handle: (context: Below, issue: Issue & { readonly pull: Pull }) => Answer | Promise<Answer>) => (context: Below) => {
  const issue = context.repository.pulls.find(({ number }) => String(number) === context.params["index"])
  return issue === undefined ? notFound(context.world) : handle(context, issue)
}

const withIssue = (handle: (context: Below, issue: Issue) => Answer | Promise<Answer>) => (context: Below) => {
  const issue = context.repository.issue(Number(context.params["index"]))
  return issue === undefined ? notFound(context.world, "issue does not exist") : handle(context, issue)
}

const editPull = async (context: Below, issue: Issue & { readonly pull: Pull }): Promise<Answer> => {
  const { call: { body }, repository } = context
  if (typeof body.title === "string" && body.title !== "") issue.title = body.title
  if (typeof body.body === "string") issue.body = body.body
  issue.updatedAt = repository.instant()
  return { status: 201, body: await shown(context, issue) }
}

const requestReviews = ({ call: { body }, repository, world }: Below, { pull, user }: Issue & { readonly pull: Pull }): Answer => {
  for (const login of body.reviewers ?? []) {
    const known = repository.collaborators.find((one) => same(one.login, login))
    if (known === undefined) return { status: 404, body: { message: "UserNotExist", url: documentation(world), errors: [] } }
    if (known.id === user.id) return refuse(world, 422, "poster of pr can't be reviewer")
    pull.reviewers.add(known.login)
  }
  for (const name of body.team_reviewers ?? []) {
    if (world.organizations.get(repository.owner.login.toLowerCase())?.teams.has(name) !== true) return notFound(world, "TeamNotExist")
    pull.reviewers.add(`team:${name}`)
  }
  return { status: 201, body: [] }
}

const listReviews = (context: Below, { number }: Issue): Answer =>
  page(
    context,
    // Pending ones are shown to their authors alone.
    context.repository.reviews.filter((one) => one.number === number && (one.state !== "PENDING" || one.user.id === context.token.user.id)),
    (one) => Shapes.review(context.world, context.repository, one),
    false
  )

const reviewComments = ({ params, repository, world }: Below, { number }: Issue): Answer => {
  const review = repository.reviews.find((one) => one.number === number && String(one.id) === params["id"])
  if (review === undefined) return notFound(world)
  return ok(
    repository.entries.filter((one) => one.type === "code" && one.review === review).map((one) =>
      Shapes.reviewComment(world, repository, one)
    )
  )
}

// --- issues ----------------------------------------------------------------------------------------------------------

const addLabels = ({ call: { body }, repository, token, world }: Below, issue: Issue): Answer => {
  const known = [...repository.labels, ...world.organizations.get(repository.owner.login.toLowerCase())?.labels ?? []]
  for (const wanted of body.labels) {
    const label = known.find(({ id, name }) => id === wanted || name === wanted)
    if (label === undefined || issue.labels.has(label)) continue
    issue.labels.add(label)
    repository.entry(issue.number, { type: "label", user: token.user, label, body: "1" })
  }
  return ok(Array.from(issue.labels, (one) => Shapes.label(world, one)))
}

const ofType = (type: Entry["type"]) => (entry: Entry) => entry.type === type

const issueComments = ({ call, repository, world }: Below, { number }: Issue): Answer =>
  ok(
    repository.entries.filter(ofType("comment")).filter((one) => one.number === number && isChanged(call, one)).map((one) =>
      Shapes.comment(world, repository, one)
    )
  )

const addComment = ({ call: { body }, repository, token, world }: Below, { number }: Issue): Answer => ({
  status: 201,
  body: Shapes.comment(world, repository, repository.entry(number, { user: token.user, body: body.body }))
})

const editComment = ({ call: { body }, params, repository, token, world }: Below): Answer => {
  const entry = repository.entries.filter(ofType("comment")).find(({ id }) => String(id) === params["id"])
  if (entry === undefined) return notFound(world)
  if (entry.user.id !== token.user.id && accessOf(repository, token.user) !== "admin") return { status: 403 }
  entry.body = body.body
  entry.updatedAt = repository.instant()
  return ok(Shapes.comment(world, repository, entry))
}

/** Comments on lines are missing, and the total is that of the page. */
const timeline = (context: Below, { number }: Issue): Answer => {
  const { call, repository, world } = context
  const entries = repository.entries.filter((one) => one.number === number && isChanged(call, one))
  const { body, headers } = page(context, entries, (one) => one)
  const shownEntries = (body as ReadonlyArray<Entry>).filter(({ type }) => type !== "code")
  return {
    ...ok(shownEntries.length === 0 ? null : shownEntries.map((one) => Shapes.timelineEntry(world, repository, one))),
    headers: { ...headers, "x-total-count": String(shownEntries.length), link: "" }
  }
}

const listIssues = (context: Below): Answer => {
  const { call, repository, world } = context
  const state = call.query.get("state") ?? "open"
  return page(
    context,
    repository.issues.filter((one) => (state === "all" || one.state === state) && isChanged(call, one)).toReversed(),
    (one) => Shapes.issue(world, repository, one)
  )
}

// --- checks ----------------------------------------------------------------------------------------------------------

/** The newest status of each context. Without any, the answer has no list. */
const combinedStatus = (context: Below): Answer => {
  const { params, repository, world } = context
  const newest = new Map(repository.statuses.filter(({ sha }) => sha === params["ref"]).map((one) => [one.context, one]))
  const answer = page(context, [...newest.values()], (one) => Shapes.status(world, repository, one), false)
  const statuses = answer.body as ReadonlyArray<unknown>
  const none = { sha: "", total_count: 0, statuses: null, repository: null, commit_url: "", url: "" }
  if (statuses.length === 0) return ok(none)
  return { ...answer, body: { ...none, state: "pending", sha: params["ref"], total_count: newest.size, statuses } }
}

const listRuns = (context: Below): Answer => {
  const { call: { query }, repository, world } = context
  const wanted = query.get("head_sha")
  const runs = repository.runs.filter(({ sha }) => wanted === null || sha === wanted).toReversed()
  const answer = page(context, runs, (one) => Shapes.run(world, repository, one))
  return { ...answer, body: { total_count: runs.length, workflow_runs: answer.body } }
}

const listTasks = (context: Below): Answer => {
  const { repository, world } = context
  const answer = page(context, repository.runs.toReversed(), (one) => Shapes.task(world, repository, one))
  return { ...answer, body: { total_count: repository.runs.length, workflow_runs: answer.body } }
}

const listJobs = ({ params, repository, world }: Below): Answer => {
  const run = repository.runs.find(({ id }) => String(id) === params["run"])
  return run === undefined ? notFound(world) : ok({ total_count: 1, jobs: [Shapes.job(world, repository, run)] })
}

const jobLog = ({ call, params, repository, world }: Below): Answer => {
  const run = repository.runs.find(({ jobId }) => String(jobId) === params["id"])
  if (run === undefined) return notFound(world)
  const log = Buffer.from(run.log)
  const last = /^bytes=-(\d+)$/u.exec(call.range ?? "")?.[1]
  return last === undefined ? { status: 200, body: log } : { status: 206, body: log.subarray(-Number(last)) }
}

const readPermission = ({ params, repository, token, world }: Below): Answer => {
  const known = [...world.users, ...repository.collaborators].find(({ login }) => same(login, params["login"]))
  if (known === undefined) return notFound(world, "user does not exist")
  if (!["owner", "admin"].includes(accessOf(repository, token.user)) && known.id !== token.user.id) {
    return refuse(
      world,
      403,
      "Only admins can query all permissions, repo admins can query all repo permissions, collaborators can query only their own"
    )
  }
  const permission = accessOf(repository, known)
  return ok({ permission, role_name: permission, user: Shapes.user(world, known) })
}

const readBranch = async ({ params, repository, world }: Below): Promise<Answer> => {
  const name = params["branch"] ?? ""
  const sha = (await repository.bare.branches()).get(name)
  return sha === undefined ? notFound(world, `branch does not exist [name: ${name}]`) : ok(Shapes.branch(repository, name, sha))
}

// --- the table -------------------------------------------------------------------------------------------------------

type Category = "issue" | "organization" | "repository" | "user"
type Handler<C> = (context: C) => Answer | Promise<Answer>

const patternOf = (path: string) =>
  new RegExp(
    `^${path.replaceAll(/\{(\w+)(\+?)\}/gu, (_, name: string, many: string) => `(?<${name}>${many === "" ? "[^/]+" : ".+"})`)}$`,
    "u"
  )

const routeOf = <C>(description: string, handle: Handler<C>, base = "") => {
  const [method = "", path = ""] = description.split(" ")
  return { method, pattern: patternOf(base + path), handle }
}

const top: ReadonlyArray<ReturnType<typeof routeOf<Context>> & { readonly category: Category | null }> = [
  { ...routeOf<Context>("GET /version", ({ world }) => ok({ version: world.version })), category: null },
  { ...routeOf<Context>("GET /user", ({ token, world }) => ok(Shapes.user(world, token.user))), category: "user" },
  {
    ...routeOf<Context>("GET /user/repos", (context) => {
      const own = context.world.repositories.filter((one) => one.collaborators.some(({ id }) => id === context.token.user.id))
      return page(context, own, (one) => Shapes.repository(context.world, one, mayWrite(one, context.token.user)))
    }),
    category: "user"
  },
  {
    ...routeOf<Context>("GET /orgs/{org}/labels", (context) => {
      const organization = context.world.organizations.get(context.params["org"]?.toLowerCase() ?? "")
      return organization === undefined
        ? notFound(context.world)
        : page(context, organization.labels, (one) => Shapes.label(context.world, one), false)
    }),
    category: "organization"
  }
]

const below = (description: string, handle: Handler<Below>) => routeOf(description, handle, "/repos/{owner}/{repo}")

const routes: ReadonlyArray<ReturnType<typeof routeOf<Below>>> = [
  below("GET ", ({ repository, token, world }) => ok(Shapes.repository(world, repository, mayWrite(repository, token.user)))),
  below("GET /branches/{branch+}", readBranch),
  below("GET /collaborators/{login}/permission", readPermission),
  below("GET /pulls", listPulls),
  below("POST /pulls", openPull),
  below("GET /pulls/{index}", withPull(async (context, issue) => ok(await shown(context, issue)))),
  below("PATCH /pulls/{index}", withPull(editPull)),
  below("POST /pulls/{index}/requested_reviewers", withPull(requestReviews)),
  below("GET /pulls/{index}/reviews", withPull(listReviews)),
  below("GET /pulls/{index}/reviews/{id}/comments", withPull(reviewComments)),
  below("GET /labels", (context) => page(context, context.repository.labels, (one) => Shapes.label(context.world, one), false)),
  below("POST /issues/{index}/labels", withIssue(addLabels)),
  below("GET /issues", listIssues),
  below("PATCH /issues/comments/{id}", editComment),
  below("GET /issues/{index}", withIssue(({ repository, world }, issue) => ok(Shapes.issue(world, repository, issue)))),
  below("GET /issues/{index}/comments", withIssue(issueComments)),
  below("POST /issues/{index}/comments", withIssue(addComment)),
  below("GET /issues/{index}/timeline", withIssue(timeline)),
  below("GET /commits/{ref}/status", combinedStatus),
  below("GET /actions/runs", listRuns),
  below("GET /actions/tasks", listTasks)
]
const onlyGitea: ReadonlyArray<ReturnType<typeof routeOf<Below>>> = [
  below("GET /actions/runs/{run}/jobs", listJobs),
  below("GET /actions/jobs/{id}/logs", jobLog)
]

/** Without the scope, the server refuses before it looks for a repository. */
const lacksScope = ({ scopes }: Token, method: string, category: Category | null): string | null => {
  if (category === null || scopes.has("all") || scopes.has(`write:${category}`)) return null
  const needed = `${method === "GET" ? "read" : "write"}:${category}`
  return scopes.has(needed) ? null : needed
}

/** `token`: that of the call, if it is valid. */
export const answer = async (world: World, call: Call, token: Token | undefined): Promise<Answer> => {
  const path = decodeURIComponent(call.path)
  if (token === undefined) return refuse(world, 401, "user does not exist [uid: 0, name: ]")
  const above = top.find(({ method, pattern }) => method === call.method && pattern.test(path))
  const category = above === undefined ? /^\/repos\/[^/]+\/[^/]+\/issues/u.test(path) ? "issue" : "repository" : above.category
  const missing = lacksScope(token, call.method, category)
  if (missing !== null) return refuse(world, 403, `token does not have at least one of required scope(s): [${missing}]`)
  const context = { world, call, token, params: above?.pattern.exec(path)?.groups ?? {} }
  if (above !== undefined) return above.handle(context)

  const [, owner = "", name = ""] = /^\/repos\/([^/]+)\/([^/]+)/u.exec(path) ?? []
  const repository = findRepository(world, owner, name)
  if (repository === undefined) return notFound(world)
  if (repository.name.toLowerCase() !== name.toLowerCase()) {
    return {
      status: 301,
      headers: { location: `/api/v1${call.path.replace(/^\/repos\/[^/]+\/[^/]+/u, `/repos/${repository.fullName}`)}` }
    }
  }
  if (accessOf(repository, token.user) === "none") return notFound(world)
  const all = world.flavour === "gitea" ? [...routes, ...onlyGitea] : routes
  const found = all.find(({ method, pattern }) => method === call.method && pattern.test(path))
  if (found === undefined) return notFound(world)
  if (call.method !== "GET" && !mayWrite(repository, token.user)) {
    return refuse(world, 403, "user should have a permission to write to a repo")
  }
  return repository.exclusively(async () => found.handle({ ...context, repository, params: found.pattern.exec(path)?.groups ?? {} }))
}
