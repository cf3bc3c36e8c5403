/** The part of GitHub's REST API that the server has: who may ask for what, and what is answered. */
import type { Signature } from "@slipway/git/testing/BareRepository"
import { type AppAuthentication, isGranted, type Level, type Permissions, type Token } from "./AppAuthentication.ts"
import type { CheckRun, Comment, Pull, Repository, User } from "./Repository.ts"
import * as Shapes from "./Shapes.ts"

export interface Answer {
  readonly status: number
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

interface Call {
  readonly method: string
  /** Below the API's base, without its query. */
  readonly path: string
  readonly query: URLSearchParams
  readonly authorization: string | undefined
  readonly body: string
}

export interface World {
  readonly addresses: Shapes.Addresses
  readonly app: AppAuthentication
  readonly repositories: ReadonlyArray<Repository>
}

interface Context {
  readonly world: World
  readonly call: Call
  readonly params: Readonly<Record<string, string>>
  readonly body: Readonly<Record<string, unknown>>
}

interface RepositoryContext extends Context {
  readonly repository: Repository
  readonly permissions: Permissions
}

const DOCUMENTATION = "https://docs.github.com/rest"

export const refuse = (status: number, message: string, errors?: ReadonlyArray<object>): Answer => ({
  status,
  body: { message, ...(errors === undefined ? {} : { errors }), documentation_url: DOCUMENTATION, status: String(status) }
})

const ok = (body: unknown): Answer => ({ status: 200, body })
const created = (body: unknown): Answer => ({ status: 201, body })
const empty: Answer = { status: 204 }
const notFound = refuse(404, "Not Found")

/** The token of an `Authorization`: `token X` and `Bearer X` for the API, `Basic` for git. */
export const tokenOf = (authorization: string | undefined): string | undefined => {
  const [, scheme = "", credentials = ""] = /^(\S+) +(\S+)$/u.exec(authorization ?? "") ?? []
  if (/^(?:token|bearer)$/iu.test(scheme)) return credentials
  return /^basic$/iu.test(scheme) ? /:(.*)$/su.exec(Buffer.from(credentials, "base64").toString())?.[1] : undefined
}

/** By its present or a former name, in any case of letters. */
export const findRepository = ({ repositories }: World, owner: string, name: string): Repository | undefined => {
  const same = (a: string, b: string) => a.toLowerCase() === b.toLowerCase()
  const theirs = repositories.filter((repository) => same(repository.owner.login, owner))
  return theirs.find((repository) => same(repository.name, name)) ??
    theirs.find(({ formerNames }) => formerNames.some((former) => same(former, name)))
}

const readOnly: Permissions = { metadata: "read", contents: "read", pull_requests: "read", issues: "read", checks: "read", actions: "read" }

/** The permissions of a token on a repository; `undefined`: it does not even see it. */
export const permissionsOn = (repository: Repository, token: Token | undefined): Permissions | undefined => {
  const { installation, permissions, repositories } = token ?? {}
  const own = installation !== undefined && installation.account.toLowerCase() === repository.owner.login.toLowerCase() &&
    (installation.repositories === "all" || installation.repositories.includes(repository.name)) &&
    (repositories === null || repositories?.has(repository.id) === true)
  if (own) return permissions
  return repository.private ? undefined : readOnly
}

/** One page of a list. https://docs.github.com/en/rest/using-the-rest-api/using-pagination-in-the-rest-api */
const page = <A>({ call, world }: Context, items: ReadonlyArray<A>, wrap: (items: ReadonlyArray<A>) => unknown): Answer => {
  const perPage = Math.min(Math.max(Number(call.query.get("per_page") ?? 30) || 30, 1), 100)
  const number = Math.max(Number(call.query.get("page") ?? 1) || 1, 1)
  const last = Math.max(Math.ceil(items.length / perPage), 1)
  const link = (to: number, rel: string) => {
    const query = new URLSearchParams(call.query)
    query.set("page", String(to))
    return `<${world.addresses.api}${call.path}?${query}>; rel="${rel}"`
  }
  const links = [
    ...(number > 1 ? [link(number - 1, "prev")] : []),
    ...(number < last ? [link(number + 1, "next"), link(last, "last")] : []),
    ...(number > 1 ? [link(1, "first")] : [])
  ]
  return {
    ...ok(wrap(items.slice((number - 1) * perPage, number * perPage))),
    ...(links.length === 0 ? {} : { headers: { link: links.join(", ") } })
  }
}

// --- the App ---------------------------------------------------------------------------------------------------------

const mint = ({ body, params, world }: Context): Answer => {
  const { addresses, app, repositories } = world
  const installation = app.installations.find(({ id }) => String(id) === params["id"])
  if (installation === undefined) return notFound
  if (installation.suspended) return refuse(403, "This installation has been suspended")
  const permissions = (body["permissions"] ?? installation.permissions) as Permissions
  if (Object.entries(permissions).some(([name, level]) => !isGranted(installation.permissions, name, level))) {
    return refuse(422, "The permissions requested are not granted to this installation.")
  }
  const ids = body["repository_ids"] as ReadonlyArray<number> | undefined
  const names = body["repositories"] as ReadonlyArray<string> | undefined
  const chosen = (ids ?? names)?.map((wanted) => {
    const found = typeof wanted === "number"
      ? repositories.find(({ id }) => id === wanted)
      : findRepository(world, installation.account, wanted)
    return found !== undefined && app.installationOf(installation.account, found.name) === installation ? found : undefined
  })
  if (chosen?.includes(undefined)) {
    return refuse(422, "There is at least one repository that does not exist or is not accessible to the parent installation.")
  }
  const scope = chosen?.map((repository) => repository?.id ?? 0)
  const { token, value } = app.mint(installation, permissions, scope === undefined ? null : new Set(scope))
  const selected = chosen !== undefined || installation.repositories !== "all"
  return created({
    token: value,
    expires_at: new Date(token.expiresAtMillis).toISOString().replace(/\.\d+/u, ""),
    permissions: token.permissions,
    repository_selection: selected ? "selected" : "all",
    ...(selected
      ? { repositories: repositories.filter(({ id }) => scope?.includes(id)).map((one) => Shapes.repository(addresses, one)) }
      : {})
  })
}

// --- pull requests ---------------------------------------------------------------------------------------------------

const invalid = (error: object) => refuse(422, "Validation Failed", [{ resource: "PullRequest", ...error }])
const custom = (message: string) => invalid({ code: "custom", message })

const bot = ({ slug }: AppAuthentication): User => ({ id: 2, login: `${slug}[bot]` })

const openPull = async ({ body, permissions, repository, world }: RepositoryContext): Promise<Answer> => {
  const { base, body: text, draft = false, head, title } = body
  for (const [name, value] of Object.entries({ head, base, title })) {
    if (typeof value !== "string" || value === "") return refuse(422, `Invalid request.\n\n"${name}" wasn't supplied.`)
  }
  const [baseRef, headRef] = [String(base), String(head).slice(String(head).indexOf(":") + 1)]
  if (repository.private && !isGranted(permissions, "contents", "read")) return custom("not all refs are readable")
  const branches = await repository.bare.branches()
  const [baseSha, headSha] = [branches.get(baseRef), branches.get(headRef)]
  if (baseSha === undefined) return invalid({ field: "base", code: "invalid" })
  if (headSha === undefined) return invalid({ field: "head", code: "invalid" })
  // A branch of a fork may have the same name.
  const isOpen = repository.pulls.some((pull) =>
    pull.state === "open" && pull.fork === undefined && pull.headRef === headRef && pull.baseRef === baseRef
  )
  if (isOpen) return custom(`A pull request already exists for ${repository.owner.login}:${headRef}.`)
  if (await repository.bare.contains(baseSha, headSha)) return custom(`No commits between ${baseRef} and ${headRef}`)
  if (await repository.bare.git(["merge-base", baseSha, headSha]).then(() => false, () => true)) {
    return custom(`The ${headRef} branch has no history in common with ${baseRef}`)
  }
  if (draft === true && !repository.drafts) return refuse(422, "Draft pull requests are not supported in this repository.")
  const pull = await repository.open({
    title: String(title),
    body: typeof text === "string" ? text : null,
    draft: draft === true,
    user: bot(world.app),
    baseRef,
    baseSha,
    headRef,
    headSha
  })
  return created(Shapes.pull(world.addresses, repository, pull))
}

const listPulls = (context: RepositoryContext): Answer => {
  const { call: { query }, repository, world } = context
  const [state, head, base] = [query.get("state") ?? "open", query.get("head"), query.get("base")]
  // GitHub ignores a filter that is not `owner:branch`: it answers with all.
  const [, owner, branch] = /^([^:]+):(.+)$/su.exec(head ?? "") ?? []
  const isFrom = ({ fork, headRef }: Pull) =>
    headRef === branch && owner?.toLowerCase() === (fork === undefined ? repository.owner.login : fork?.split("/")[0])?.toLowerCase()
  const pulls = repository.pulls.filter((pull) =>
    (state === "all" || pull.state === state) && (branch === undefined || isFrom(pull)) && (base === null || pull.baseRef === base)
  )
  const newestFirst = query.get("sort") === "updated"
    ? pulls.toSorted((a, b) => a.updatedAt < b.updatedAt ? 1 : a.updatedAt > b.updatedAt ? -1 : b.number - a.number)
    : pulls.toReversed()
  const ordered = query.get("direction") === "asc" ? newestFirst.toReversed() : newestFirst
  return page(context, ordered, (items) => items.map((pull) => Shapes.pullSimple(world.addresses, repository, pull)))
}

const updatePull = async ({ body, repository, world }: RepositoryContext, pull: Pull): Promise<Answer> => {
  if (typeof body["title"] === "string") pull.title = body["title"]
  if (typeof body["body"] === "string") pull.body = body["body"]
  if (body["state"] === "open" && pull.state === "closed") {
    if (pull.mergedAt !== null || !(await repository.bare.branches()).has(pull.headRef)) {
      return custom(`state cannot be changed. The ${pull.headRef} branch was deleted or merged.`)
    }
    pull.state = "open"
    pull.closedAt = null
  } else if (body["state"] === "closed" && pull.state === "open") {
    pull.state = "closed"
    pull.closedAt = repository.instant()
  }
  pull.updatedAt = repository.instant()
  return ok(Shapes.pull(world.addresses, repository, pull))
}

const withPull = (handle: (context: RepositoryContext, pull: Pull) => Answer | Promise<Answer>) => (context: RepositoryContext) => {
  const pull = context.repository.pulls.find(({ number }) => String(number) === context.params["number"])
  return pull === undefined ? notFound : handle(context, pull)
}

const readPull = async ({ repository, world }: RepositoryContext, pull: Pull): Promise<Answer> => {
  await repository.look(pull)
  return ok(Shapes.pull(world.addresses, repository, pull))
}

const isChanged = ({ call }: RepositoryContext, { updatedAt }: Comment): boolean => updatedAt >= (call.query.get("since") ?? "")

const reviews = (context: RepositoryContext, { number }: Pull): Answer =>
  page(
    context,
    context.repository.comments.filter((comment) => comment.number === number && comment.isReview),
    (items) => items.map((comment) => Shapes.review(context.world.addresses, context.repository, comment))
  )

const updateIssueComment = ({ body, params, repository, world }: RepositoryContext): Answer => {
  const comment = repository.comments.find(({ id, isReview, path }) => String(id) === params["id"] && path === null && !isReview)
  if (comment === undefined) return notFound
  if (comment.user?.login !== bot(world.app).login) return refuse(403, "Resource not accessible by integration")
  comment.body = String(body["body"])
  comment.updatedAt = repository.instant()
  return ok(Shapes.issueComment(world.addresses, repository, comment))
}

const issueComments = (context: RepositoryContext, { number }: Pull): Answer =>
  page(
    context,
    context.repository.comments.filter((comment) =>
      comment.number === number && comment.path === null && !comment.isReview && isChanged(context, comment)
    ),
    (items) => items.map((comment) => Shapes.issueComment(context.world.addresses, context.repository, comment))
  )

const reviewComments = (context: RepositoryContext, { number }: Pull): Answer =>
  page(
    context,
    context.repository.comments.filter((comment) => comment.number === number && comment.path !== null && isChanged(context, comment)),
    (items) => items.map((comment) => Shapes.reviewComment(context.world.addresses, context.repository, comment, comment.path ?? ""))
  )

const addIssueComment = ({ body, repository, world }: RepositoryContext, { number }: Pull): Answer =>
  created(
    Shapes.issueComment(world.addresses, repository, repository.comment(number, { user: bot(world.app), body: String(body["body"]) }))
  )

const addReviewComment = ({ body, repository, world }: RepositoryContext, { number }: Pull): Answer => {
  const path = String(body["path"])
  return created(
    Shapes.reviewComment(
      world.addresses,
      repository,
      repository.comment(number, { user: bot(world.app), body: String(body["body"]), path }),
      path
    )
  )
}

const readPermission = ({ params, repository, world }: RepositoryContext): Answer => {
  const same = ({ login }: User) => login.toLowerCase() === params["username"]?.toLowerCase()
  const known = repository.collaborators.find(same)
  if (known !== undefined) return ok(Shapes.permission(world.addresses, known, known.permission))
  const account = [...world.repositories.map(({ owner }) => owner), ...repository.comments.flatMap(({ user }) => user ?? [])].find(same)
  if (account === undefined) return notFound
  return ok(Shapes.permission(world.addresses, account, repository.private ? "none" : "read"))
}

// --- labels, reviewers, drafts ---------------------------------------------------------------------------------------

/** Labels are the same in any case of letters. */
const labelNamed = ({ labels }: Repository, name: string) => Array.from(labels).find((one) => one.toLowerCase() === name.toLowerCase())

const readLabel = ({ params, repository }: RepositoryContext): Answer => {
  const name = labelNamed(repository, params["name"] ?? "")
  return name === undefined ? notFound : ok({ name })
}

/** As on GitHub, a label that the repository lacks is made. */
const addLabels = ({ body, repository }: RepositoryContext, pull: Pull): Answer => {
  for (const name of body["labels"] as ReadonlyArray<string>) {
    const known = labelNamed(repository, name)
    if (known === undefined) repository.labels.add(name)
    pull.labels.add(known ?? name)
  }
  return ok(Array.from(pull.labels, (name) => ({ name })))
}

/** One who cannot review refuses all of the request. */
const requestReviews = ({ body, repository, world }: RepositoryContext, pull: Pull): Answer => {
  const [people = [], teams = []] = [body["reviewers"], body["team_reviewers"]] as ReadonlyArray<ReadonlyArray<string> | undefined>
  const logins = people.map((name) => repository.collaborators.find(({ login }) => login.toLowerCase() === name.toLowerCase())?.login)
  if (logins.includes(undefined) || teams.some((name) => !repository.teams.has(name))) {
    return refuse(422, "Reviews may only be requested from collaborators. One or more of the users or teams you specified is not one.")
  }
  for (const login of logins) pull.reviewers.add(login ?? "")
  for (const name of teams) pull.reviewers.add(`team:${name}`)
  return created(Shapes.pullSimple(world.addresses, repository, pull))
}

/** The one mutation that the App sends. GitHub answers refusals with status 200. */
export const graphql = async ({ repositories }: World, text: string, token: Token | undefined): Promise<Answer> => {
  if (token === undefined) return refuse(401, "Bad credentials")
  const { query = "", variables = {} } = (parse(text) ?? {}) as { readonly query?: string; readonly variables?: { readonly id?: string } }
  const failed = (message: string) => ok({ data: null, errors: [{ type: "NOT_FOUND", message }] })
  if (!/\bmarkPullRequestReadyForReview\b/u.test(query)) return failed("Field doesn't exist on type 'Mutation'")
  for (const repository of repositories) {
    const permissions = permissionsOn(repository, token)
    const pull = permissions === undefined ? undefined : repository.pulls.find(({ id }) => Shapes.nodeId("PR", id) === variables.id)
    if (pull === undefined || permissions === undefined) continue
    if (!isGranted(permissions, "pull_requests", "write")) return failed("Resource not accessible by integration")
    return repository.exclusively(async () => {
      if (pull.draft) pull.updatedAt = repository.instant()
      pull.draft = false
      return ok({ data: { markPullRequestReadyForReview: { pullRequest: { id: variables.id } } } })
    })
  }
  return failed(`Could not resolve to a node with the global id of '${variables.id}'.`)
}

// --- checks ----------------------------------------------------------------------------------------------------------

const listCheckRuns = async (context: RepositoryContext): Promise<Answer> => {
  const { call: { query }, params, repository, world } = context
  const sha = await repository.bare.resolve(params["ref"] ?? "")
  if (sha === undefined) return refuse(422, `No commit found for SHA: ${params["ref"]}`)
  const all = repository.checkRuns.filter(({ headSha }) => headSha === sha).toReversed()
  // The latest of runs with the same name, unless all are asked for.
  const runs = query.get("filter") === "all" ? all : all.filter((run, i) => all.findIndex(({ name }) => name === run.name) === i)
  return page(
    context,
    runs,
    (items) => ({ total_count: runs.length, check_runs: items.map((run) => Shapes.checkRun(world.addresses, repository, run)) })
  )
}

const checkRunFields = (body: Context["body"]) => ({
  name: String(body["name"]),
  status: (body["conclusion"] === undefined ? body["status"] ?? "queued" : "completed") as "queued",
  conclusion: (body["conclusion"] ?? null) as null,
  startedAt: (body["started_at"] ?? null) as string | null,
  completedAt: (body["completed_at"] ?? null) as string | null
})

const addCheckRun = ({ body, repository, world }: RepositoryContext): Answer =>
  typeof body["name"] !== "string" || typeof body["head_sha"] !== "string"
    ? refuse(422, "Invalid request.\n\n\"name\", \"head_sha\" weren't supplied.")
    : created(Shapes.checkRun(world.addresses, repository, repository.checkRun(body["head_sha"], checkRunFields(body))))

const updateCheckRun = ({ body, params, repository, world }: RepositoryContext): Answer => {
  const run = repository.checkRuns.find(({ id }) => String(id) === params["id"])
  if (run === undefined) return notFound
  Object.assign(run, checkRunFields({ ...body, name: body["name"] ?? run.name }))
  return ok(Shapes.checkRun(world.addresses, repository, run))
}

const withCheckRun = (handle: (context: RepositoryContext, run: CheckRun) => Answer) => (context: RepositoryContext): Answer => {
  const run = context.repository.checkRuns.find(({ id }) => String(id) === context.params["id"])
  return run === undefined ? notFound : handle(context, run)
}

const listAnnotations = (context: RepositoryContext, { annotations }: CheckRun): Answer =>
  page(context, annotations, (items) => items.map(Shapes.annotation))

/** GitHub sends to a file at another host. */
const jobLog = ({ world }: RepositoryContext, { id, log }: CheckRun): Answer =>
  log === null ? notFound : { status: 302, headers: { location: `${world.addresses.origin}/logs/${id}` } }

const listEvents = (context: RepositoryContext): Answer => {
  const { repository, world } = context
  const answer = page(
    context,
    repository.events.slice(-300).toReversed(),
    (items) => items.map((event) => Shapes.event(world.addresses, repository, event))
  )
  return { ...answer, headers: { ...answer.headers, "x-poll-interval": String(repository.pollIntervalSeconds) } }
}

const listWorkflowRuns = (context: RepositoryContext): Answer => {
  const { call: { query }, repository, world } = context
  const wanted = query.get("head_sha")
  const runs = repository.workflowRuns.filter(({ headSha }) => wanted === null || headSha === wanted).toReversed()
  return page(
    context,
    runs,
    (items) => ({ total_count: runs.length, workflow_runs: items.map((run) => Shapes.workflowRun(world.addresses, repository, run)) })
  )
}

// --- git data --------------------------------------------------------------------------------------------------------

const readRef = async ({ params, repository, world }: RepositoryContext): Promise<Answer> => {
  const name = `refs/${params["ref"]}`
  const sha = await repository.bare.resolve(name)
  return sha === undefined ? notFound : ok(Shapes.ref(world.addresses, repository, name, sha))
}

const setRef = async ({ body, call, params, repository, world }: RepositoryContext): Promise<Answer> => {
  const name = call.method === "POST" ? String(body["ref"]) : `refs/${params["ref"]}`
  const [sha, current] = [await repository.bare.resolve(String(body["sha"])), await repository.bare.resolve(name)]
  if (sha === undefined) return refuse(422, "Object does not exist")
  if (call.method === "POST" && current !== undefined) return refuse(422, "Reference already exists")
  if (call.method === "PATCH") {
    if (current === undefined) return refuse(422, "Reference does not exist")
    if (body["force"] !== true && !(await repository.bare.contains(sha, current))) return refuse(422, "Update is not a fast forward")
  }
  await repository.bare.setRef(name, sha)
  const answer = Shapes.ref(world.addresses, repository, name, sha)
  return call.method === "POST" ? created(answer) : ok(answer)
}

const deleteRef = async ({ params, repository }: RepositoryContext): Promise<Answer> => {
  const name = `refs/${params["ref"]}`
  if (await repository.bare.resolve(name) === undefined) return refuse(422, "Reference does not exist")
  await repository.bare.deleteRef(name)
  return empty
}

const listBranches = async (context: RepositoryContext): Promise<Answer> =>
  page(
    context,
    [...await context.repository.bare.branches()],
    (items) => items.map(([name, sha]) => Shapes.branch(context.world.addresses, context.repository, name, sha))
  )

const readBranch = async ({ params, repository, world }: RepositoryContext): Promise<Answer> => {
  const name = params["branch"] ?? ""
  const sha = (await repository.bare.branches()).get(name)
  return sha === undefined ? refuse(404, "Branch not found") : ok(Shapes.branch(world.addresses, repository, name, sha))
}

const addBlob = async ({ body, repository }: RepositoryContext): Promise<Answer> =>
  created({ sha: await repository.bare.blob(Buffer.from(String(body["content"]), body["encoding"] === "base64" ? "base64" : "utf8")) })

interface TreeEntry {
  readonly path: string
  readonly mode: string
  readonly sha?: string | null
  readonly content?: string
}

const addTree = async ({ body, repository }: RepositoryContext): Promise<Answer> => {
  const entries = await Promise.all(
    (body["tree"] as ReadonlyArray<TreeEntry>).map(async ({ content, mode, path, sha }) => ({
      mode,
      path,
      sha: content === undefined ? sha ?? null : await repository.bare.blob(content)
    }))
  )
  return created({ sha: await repository.bare.tree(entries, body["base_tree"] as string | undefined) })
}

const addCommit = async ({ body, repository }: RepositoryContext): Promise<Answer> => {
  const { author, committer, message, parents = [], tree } = body as {
    readonly message: string
    readonly tree: string
    readonly parents?: ReadonlyArray<string>
    readonly author?: Signature
    readonly committer?: Signature
  }
  const sha = await repository.bare.commitTree(tree, parents, message, author, committer)
  return created({ sha, message, tree: { sha: tree }, parents: parents.map((parent) => ({ sha: parent })) })
}

// --- the table -------------------------------------------------------------------------------------------------------

type Handler<C> = (context: C) => Answer | Promise<Answer>
type Route =
  & { readonly method: string; readonly pattern: RegExp }
  & (
    | { readonly by: "app" | "token"; readonly handle: Handler<Context> }
    | { readonly by: "repository"; readonly permission: string; readonly level: Level; readonly handle: Handler<RepositoryContext> }
  )

/** `{name}` is one segment, `{name+}` is several. */
const patternOf = (path: string) =>
  new RegExp(
    `^${path.replaceAll(/\{(\w+)(\+?)\}/gu, (_, name: string, many: string) => `(?<${name}>${many === "" ? "[^/]+" : ".+"})`)}$`,
    "u"
  )

const route = (description: string, by: "app" | "token", handle: Handler<Context>): Route => {
  const [method = "", path = ""] = description.split(" ")
  return { method, pattern: patternOf(path), by, handle }
}

const onRepository = (description: string, needs: `${string}:${Level}`, handle: Handler<RepositoryContext>): Route => {
  const [method = "", path = ""] = description.split(" ")
  const [permission = "", level] = needs.split(":")
  return { method, pattern: patternOf(`/repos/{owner}/{repo}${path}`), by: "repository", permission, level: level as Level, handle }
}

// Permissions: https://docs.github.com/en/rest/authentication/permissions-required-for-github-apps
const routes: ReadonlyArray<Route> = [
  route("GET /app", "app", ({ world }) => ok(Shapes.app(world.addresses, world.app))),
  route(
    "GET /app/installations",
    "app",
    (context) =>
      page(
        context,
        context.world.app.installations,
        (items) => items.map((one) => Shapes.installation(context.world.addresses, context.world.app, one))
      )
  ),
  route("GET /app/installations/{id}", "app", ({ params, world }) => {
    const found = world.app.installations.find(({ id }) => String(id) === params["id"])
    return found === undefined ? notFound : ok(Shapes.installation(world.addresses, world.app, found))
  }),
  route("POST /app/installations/{id}/access_tokens", "app", mint),
  route("GET /repos/{owner}/{repo}/installation", "app", ({ params, world }) => {
    const repository = findRepository(world, params["owner"] ?? "", params["repo"] ?? "")
    const found = repository === undefined ? undefined : world.app.installationOf(repository.owner.login, repository.name)
    return found === undefined ? notFound : ok(Shapes.installation(world.addresses, world.app, found))
  }),
  route("GET /repositories/{id}/installation", "app", ({ params, world }) => {
    const repository = world.repositories.find(({ id }) => String(id) === params["id"])
    const found = repository === undefined ? undefined : world.app.installationOf(repository.owner.login, repository.name)
    return found === undefined ? notFound : ok(Shapes.installation(world.addresses, world.app, found))
  }),
  route("GET /users/{username}/installation", "app", ({ params, world }) => {
    const found = world.app.installations.find(({ account }) => account.toLowerCase() === params["username"]?.toLowerCase())
    return found === undefined ? notFound : ok(Shapes.installation(world.addresses, world.app, found))
  }),
  route("GET /installation/repositories", "token", (context) => {
    const { call, world } = context
    const token = world.app.token(tokenOf(call.authorization) ?? "")
    const own = world.repositories.filter(({ id, name, owner }) =>
      owner.login.toLowerCase() === token?.installation.account.toLowerCase() &&
      (token.installation.repositories === "all" || token.installation.repositories.includes(name)) &&
      (token.repositories === null || token.repositories.has(id))
    )
    return page(context, own, (items) => ({
      total_count: own.length,
      repositories: items.map((one) => Shapes.repository(world.addresses, one))
    }))
  }),
  route("DELETE /installation/token", "token", ({ call, world }) => {
    world.app.revoke(tokenOf(call.authorization) ?? "")
    return empty
  }),
  onRepository("GET ", "metadata:read", ({ repository, world }) => ok(Shapes.repository(world.addresses, repository))),
  onRepository("GET /collaborators/{username}/permission", "metadata:read", readPermission),
  onRepository("GET /branches", "contents:read", listBranches),
  onRepository("GET /branches/{branch+}", "contents:read", readBranch),
  onRepository("GET /git/ref/{ref+}", "contents:read", readRef),
  onRepository("POST /git/refs", "contents:write", setRef),
  onRepository("PATCH /git/refs/{ref+}", "contents:write", setRef),
  onRepository("DELETE /git/refs/{ref+}", "contents:write", deleteRef),
  onRepository("POST /git/blobs", "contents:write", addBlob),
  onRepository("POST /git/trees", "contents:write", addTree),
  onRepository("POST /git/commits", "contents:write", addCommit),
  onRepository("GET /events", "metadata:read", listEvents),
  onRepository("GET /pulls", "pull_requests:read", listPulls),
  onRepository("POST /pulls", "pull_requests:write", openPull),
  onRepository("GET /pulls/{number}", "pull_requests:read", withPull(readPull)),
  onRepository("PATCH /pulls/{number}", "pull_requests:write", withPull(updatePull)),
  onRepository("GET /pulls/{number}/comments", "pull_requests:read", withPull(reviewComments)),
  onRepository("POST /pulls/{number}/comments", "pull_requests:write", withPull(addReviewComment)),
  onRepository("GET /pulls/{number}/reviews", "pull_requests:read", withPull(reviews)),
  onRepository("PATCH /issues/comments/{id}", "pull_requests:write", updateIssueComment),
  onRepository("GET /check-runs/{id}/annotations", "checks:read", withCheckRun(listAnnotations)),
  onRepository("GET /actions/jobs/{id}/logs", "actions:read", withCheckRun(jobLog)),
  // Documented is either of this and "issues"; of pull requests it is this one: https://github.com/vitejs/vite-ecosystem-ci/pull/487
  onRepository("GET /issues/{number}/comments", "pull_requests:read", withPull(issueComments)),
  onRepository("POST /issues/{number}/comments", "pull_requests:write", withPull(addIssueComment)),
  onRepository("GET /labels/{name+}", "pull_requests:read", readLabel),
  onRepository("POST /issues/{number}/labels", "pull_requests:write", withPull(addLabels)),
  onRepository("POST /pulls/{number}/requested_reviewers", "pull_requests:write", withPull(requestReviews)),
  onRepository("GET /commits/{ref+}/check-runs", "checks:read", listCheckRuns),
  onRepository("POST /check-runs", "checks:write", addCheckRun),
  onRepository("PATCH /check-runs/{id}", "checks:write", updateCheckRun),
  onRepository("GET /actions/runs", "actions:read", listWorkflowRuns)
]

const parse = (body: string): Readonly<Record<string, unknown>> | undefined => {
  try {
    return body === "" ? {} : JSON.parse(body)
  } catch {
    return undefined
  }
}

/** `token` is that of the call, if it is a good one. */
export const answer = async (world: World, call: Call, token: Token | undefined): Promise<Answer> => {
  const path = decodeURIComponent(call.path)
  const found = routes.find(({ method, pattern }) => method === call.method && pattern.test(path))
  if (found === undefined) return notFound
  const params = found.pattern.exec(path)?.groups ?? {}
  const { owner = "", repo = "" } = params

  if (found.by === "app") {
    const refusal = world.app.refusalOfJwt(call.authorization)
    if (refusal !== undefined) return refuse(refusal.status, refusal.message)
  } else if (token === undefined && (call.authorization !== undefined || found.by === "token")) return refuse(401, "Bad credentials")
  const repository = findRepository(world, owner, repo)
  const permissions = repository === undefined ? undefined : permissionsOn(repository, token)
  if (found.by === "repository" && permissions === undefined) return notFound

  if (repository !== undefined && repository.name.toLowerCase() !== repo.toLowerCase()) {
    const url = call.path.replace(/^\/repos\/[^/]+\/[^/]+/u, `${world.addresses.api}/repositories/${repository.id}`)
    return {
      status: call.method === "GET" ? 301 : 307,
      headers: { location: url },
      body: { message: "Moved Permanently", url, documentation_url: DOCUMENTATION }
    }
  }
  const body = parse(call.body)
  if (body === undefined) return refuse(400, "Problems parsing JSON")
  if (found.by !== "repository") return found.handle({ world, call, params, body })
  if (repository === undefined || permissions === undefined) return notFound

  const { handle, level, permission } = found
  if (!isGranted(permissions, permission, level)) {
    return {
      ...refuse(403, "Resource not accessible by integration"),
      headers: { "x-accepted-github-permissions": `${permission}=${level}` }
    }
  }
  return repository.exclusively(async () => {
    const answer = await handle({ world, call, params, body, repository, permissions })
    if (call.method !== "GET") await repository.settle()
    return answer
  })
}
