/** The part of GitLab's REST API that the server has: who may ask for what, and what is answered. */
import type { Answer } from "@slipway/git/testing/HostServer"
import type * as Model from "./Project.ts"
import type { MergeRequest, Project, User } from "./Project.ts"
import * as Shapes from "./Shapes.ts"

/** A personal, project or group access token, or one of an OAuth application. */
export interface Token {
  readonly user: User
  scopes: ReadonlyArray<string>
  isActive: boolean
  expiresAt: string | null
  /** GitLab answers no scopes of tokens of OAuth applications. */
  readonly isOfApplication: boolean
}

export interface World {
  readonly origin: string
  readonly projects: ReadonlyArray<Project>
  readonly users: ReadonlyArray<User>
  readonly tokens: ReadonlyMap<string, Token>
  /** Roles in groups, by path and user id. Their projects and subgroups inherit them. */
  readonly groups: ReadonlyMap<string, ReadonlyMap<number, number>>
}

interface Call {
  readonly method: string
  /** Below `/api/v4`, without its query. */
  readonly path: string
  readonly query: URLSearchParams
  readonly body: Readonly<Record<string, unknown>>
}

interface Context {
  readonly world: World
  readonly call: Call
  readonly token: Token
  readonly params: Readonly<Record<string, string>>
}

interface ProjectContext extends Context {
  readonly project: Project
  readonly level: number
}

export const refuse = (status: number, message: unknown): Answer => ({ status, body: { message } })
const ok = (body: unknown): Answer => ({ status: 200, body })
const created = (body: unknown): Answer => ({ status: 201, body })
const notFound = (what: string): Answer => refuse(404, `404 ${what} Not Found`)
const forbidden = refuse(403, "403 Forbidden")

export const GUEST = 10
export const REPORTER = 20
export const DEVELOPER = 30

/** The highest role of the account in the project; 0: none. */
export const levelOf = ({ groups }: World, project: Project, user: User): number => {
  const inherited = [...groups].filter(([path]) => project.path.toLowerCase().startsWith(`${path.toLowerCase()}/`))
    .map(([, members]) => members.get(user.id) ?? 0)
  return Math.max(project.members.get(user.id)?.level ?? 0, ...inherited)
}

const same = (a: string, b: string): boolean => a.toLowerCase() === b.toLowerCase()

/** By its number, or its present or former path in any case of letters. */
export const findProject = ({ projects }: World, id: string): Project | undefined =>
  projects.find((project) => String(project.id) === id || same(project.path, id)) ??
    projects.find(({ formerPaths }) => formerPaths.some((path) => same(path, id)))

/** One page of a list. https://docs.gitlab.com/api/rest/#pagination */
const page = <A>({ call, world }: Context, items: ReadonlyArray<A>, shape: (item: A) => unknown): Answer => {
  const size = Math.min(Number(call.query.get("per_page") ?? 20), 100)
  const number = Number(call.query.get("page") ?? 1)
  const query = new URLSearchParams(call.query)
  query.set("page", String(number + 1))
  return {
    ...ok(items.slice((number - 1) * size, number * size).map(shape)),
    ...(items.length <= number * size ? {} : { headers: { link: `<${world.origin}/api/v4${call.path}?${query}>; rel="next"` } })
  }
}

/** Sorted by a time, newest first unless asked otherwise; those that changed since then. */
const sorted = <A>({ query }: Call, items: ReadonlyArray<A>, timeOf: (item: A) => string): ReadonlyArray<A> => {
  const after = query.get("updated_after")
  const found = items.filter((item) => after === null || timeOf(item) >= new Date(after).toISOString())
    .toSorted((a, b) => timeOf(a) < timeOf(b) ? -1 : timeOf(a) > timeOf(b) ? 1 : 0)
  return query.get("sort") === "asc" ? found : found.toReversed()
}

// --- accounts and projects -------------------------------------------------------------------------------------------

const listProjects = (context: Context): Answer => {
  const { call: { query }, token, world } = context
  const after = Number(query.get("id_after") ?? 0)
  const found = world.projects.filter((project) => project.id > after && levelOf(world, project, token.user) > 0).toSorted((a, b) =>
    a.id - b.id
  )
  return page(context, found, (project) => Shapes.basicProject(world.origin, project))
}

const listGroupProjects = (context: Context): Answer => {
  const { call: { query }, params, token, world } = context
  const group = [...world.groups.keys()].find((path) => same(path, params["id"] ?? ""))
  if (group === undefined || (world.groups.get(group)?.get(token.user.id) ?? 0) === 0) return notFound("Group")
  const search = query.get("search")?.toLowerCase() ?? ""
  const found = world.projects.filter(({ path }) =>
    path.toLowerCase().startsWith(`${group.toLowerCase()}/`) &&
    (query.get("include_subgroups") === "true" || path.split("/").length === group.split("/").length + 1) &&
    (path.split("/").at(-1) ?? "").toLowerCase().includes(search)
  )
  return page(context, found, (project) => Shapes.basicProject(world.origin, project))
}

const readMember = ({ params, project, world }: ProjectContext): Answer => {
  const id = Number(params["user_id"])
  const direct = project.members.get(id)
  const user = direct?.user ?? world.users.find((one) => one.id === id)
  const level = user === undefined ? 0 : levelOf(world, project, user)
  if (user === undefined || level === 0) return notFound("Member")
  return ok({
    ...Shapes.user(world.origin, user),
    state: direct?.state ?? "active",
    access_level: level,
    expires_at: direct?.expiresAt ?? null,
    membership_state: "active"
  })
}

const readBranch = async ({ params, project, world }: ProjectContext): Promise<Answer> => {
  const name = params["branch"] ?? ""
  const sha = (await project.bare.branches()).get(name)
  if (sha === undefined) return notFound("Branch")
  return ok({
    name,
    commit: { id: sha, parent_ids: [], title: "change" },
    merged: false,
    protected: project.protectedBranches.has(name),
    can_push: true,
    default: name === project.defaultBranch,
    web_url: `${world.origin}/${project.path}/-/tree/${name}`
  })
}

const readCommit = async ({ params, project }: ProjectContext): Promise<Answer> => {
  const sha = await project.bare.resolve(params["sha"] ?? "")
  if (sha === undefined) return notFound("Commit")
  const parents = await project.bare.git(["rev-list", "--parents", "--max-count=1", sha])
  return ok({ id: sha, parent_ids: parents.split(" ").slice(1), title: "change" })
}

// --- merge requests --------------------------------------------------------------------------------------------------

const listMergeRequests = (context: ProjectContext): Answer => {
  const { call, project, world } = context
  const [state, branch] = [call.query.get("state") ?? "all", call.query.get("source_branch")]
  const found = project.mergeRequests.filter((one) =>
    (state === "all" || one.state === state) && (branch === null || one.sourceBranch === branch)
  )
  const timeOf = ({ createdAt, updatedAt }: MergeRequest) => call.query.get("order_by") === "updated_at" ? updatedAt : createdAt
  return page(context, sorted(call, found, timeOf), (one) => Shapes.mergeRequestBasic(world.origin, project, one))
}

/** GitLab carries out these lines of a description or comment, and keeps the others. */
const obey = (project: Project, text: string): string => {
  const lines = text.split("\n")
  const actions = lines.filter((line) => /^\s*\/(?:approve|close|draft|merge|ready)(?:\s|$)/u.test(line))
  project.quickActions.push(...actions)
  return lines.filter((line) => !actions.includes(line)).join("\n")
}

const openMergeRequest = async ({ call, level, project, token, world }: ProjectContext): Promise<Answer> => {
  if (level < DEVELOPER) return forbidden
  const { description = "", source_branch: source, target_branch: target, title } = call.body
  if (String(title).length > 255) return refuse(400, { title: ["is too long (maximum is 255 characters)"] })
  if (source === target) return refuse(422, ["You can't use same project/branch for source and target"])
  const other = project.mergeRequests.find((one) =>
    one.state === "opened" && one.sourceBranch === source && one.targetBranch === target && one.sourceProject === undefined
  )
  if (other !== undefined) return refuse(409, [`Another open merge request already exists for this source branch: !${other.iid}`])
  const opened = await project.open({
    author: token.user,
    title: String(title),
    description: obey(project, String(description)),
    sourceBranch: String(source),
    targetBranch: String(target)
  })
  return created(Shapes.mergeRequest(world.origin, project, opened))
}

const withMergeRequest =
  (name: string, handle: (context: ProjectContext, one: MergeRequest) => Answer | Promise<Answer>) => (context: ProjectContext) => {
    const one = context.project.mergeRequests.find(({ iid }) => String(iid) === context.params[name])
    return one === undefined ? refuse(404, "404 Not found") : handle(context, one)
  }

const readMergeRequest = ({ project, world }: ProjectContext, one: MergeRequest): Answer => {
  const answer = ok(Shapes.mergeRequest(world.origin, project, one))
  if (one.unpreparedReads > 0) one.unpreparedReads--
  return answer
}

const updateMergeRequest = ({ call: { body }, level, project, world }: ProjectContext, one: MergeRequest): Answer => {
  if (level < DEVELOPER) return forbidden
  const { add_labels: labels = [], reviewer_ids: reviewers, title } = body
  if (typeof title === "string") one.title = title
  for (const label of labels as ReadonlyArray<string>) {
    // As on GitLab, a label that the project lacks is made.
    project.labels.add(label)
    one.labels.add(label)
  }
  if (reviewers !== undefined) {
    const readers = (reviewers as ReadonlyArray<number>).flatMap((id) => world.users.find((user) => user.id === id) ?? [])
      .filter((user) => levelOf(world, project, user) > 0)
    one.reviewers = project.isPaid ? readers : readers.slice(0, 1)
  }
  one.updatedAt = project.instant()
  return ok(Shapes.mergeRequest(world.origin, project, one))
}

const listNotes = (context: ProjectContext, { iid }: MergeRequest): Answer => {
  const { call, project, world } = context
  const found = project.notes.filter((note) =>
    note.of === "MergeRequest" && note.number === iid && !(note.system && call.query.get("activity_filter") === "only_comments")
  )
  const timeOf = ({ createdAt, updatedAt }: Model.Note) => call.query.get("order_by") === "updated_at" ? updatedAt : createdAt
  return page(context, sorted(call, found, timeOf), (note) => Shapes.note(world.origin, project, note))
}

const addNote = ({ call, level, project, token, world }: ProjectContext, { iid }: MergeRequest): Answer => {
  if (level === 0) return forbidden
  const body = obey(project, String(call.body["body"]))
  return created(Shapes.note(world.origin, project, project.note(iid, { author: token.user, body })))
}

const updateNote = ({ call, params, project, token, world }: ProjectContext): Answer => {
  const note = project.notes.find(({ id }) => String(id) === params["note_id"])
  if (note === undefined) return notFound("Note")
  if (note.author.id !== token.user.id) return forbidden
  note.body = obey(project, String(call.body["body"]))
  note.updatedAt = project.instant()
  return ok(Shapes.note(world.origin, project, note))
}

const ofCi = (handle: (context: ProjectContext) => Answer) => (context: ProjectContext): Answer =>
  context.project.hasPipelines ? handle(context) : forbidden

const mergeRequestPipelines = withMergeRequest("iid", (context, one) =>
  ofCi(({ project, world }) => {
    const refs = [one.sourceBranch, `refs/merge-requests/${one.iid}/head`, `refs/merge-requests/${one.iid}/merge`]
    const found = project.pipelines.filter(({ ref }) => refs.includes(ref)).toReversed().slice(0, 20)
    return ok(found.map((pipeline) => Shapes.pipeline(world.origin, project, pipeline)))
  })(context))

/** GitLab filters by a ref only if it is given. */
const listStatuses = ofCi((context) => {
  const { params, project, world } = context
  return page(context, project.statuses.filter(({ sha }) => sha === params["sha"]), (one) => Shapes.status(world.origin, project, one))
})

const listPipelines = ofCi((context) => {
  const { call, project, world } = context
  return page(
    context,
    sorted(call, project.pipelines, ({ updatedAt }) => updatedAt),
    (one) => Shapes.pipeline(world.origin, project, one)
  )
})

// --- issues, labels and events ---------------------------------------------------------------------------------------

const listIssues = (context: ProjectContext): Answer => {
  const { call, project, world } = context
  return page(context, sorted(call, project.issues, ({ updatedAt }) => updatedAt), (one) => Shapes.issue(world.origin, project, one))
}

const readIssue = ({ params, project, world }: ProjectContext): Answer => {
  const issue = project.issues.find(({ iid }) => String(iid) === params["iid"])
  return issue === undefined ? refuse(404, "404 Not found") : ok(Shapes.issue(world.origin, project, issue))
}

const labelEvents = (of: Model.LabelEvent["of"]) => (context: ProjectContext): Answer =>
  page(
    context,
    context.project.labelEvents.filter((one) => one.of === of && String(one.iid) === context.params["iid"]),
    (one) => Shapes.labelEvent(context.world.origin, one)
  )

const readLabel = ({ params, project }: ProjectContext): Answer => {
  const name = params["name"] ?? ""
  // A number is taken for an id first.
  if (/^\d+$/u.test(name)) return ok({ id: Number(name), name: "of that id" })
  return project.labels.has(name) ? ok({ id: 1, name }) : notFound("Label")
}

const listEvents = (context: ProjectContext): Answer => {
  const { call, project, world } = context
  const found = project.events.filter(({ action }) => call.query.get("action") !== "commented" || action === "commented on")
  return page(context, sorted(call, found, ({ createdAt }) => createdAt), (one) => Shapes.event(world.origin, project, one))
}

// --- routes ----------------------------------------------------------------------------------------------------------

const listUsers = (context: Context): Answer => {
  const name = context.call.query.get("username")
  const found = context.world.users.filter(({ username }) => name === null || same(username, name))
  return page(context, found, (user) => Shapes.user(context.world.origin, user))
}

const ownToken = ({ token }: Context): Answer =>
  token.isOfApplication ? refuse(401, "401 Unauthorized") : ok({
    id: 1,
    name: "token",
    revoked: false,
    created_at: new Date(0).toISOString(),
    scopes: token.scopes,
    user_id: token.user.id,
    active: token.isActive,
    // The description has a time here, the examples a date.
    expires_at: token.expiresAt === null ? null : `${token.expiresAt}T00:00:00.000Z`
  })

const ofServer: ReadonlyArray<readonly [string, (context: Context) => Answer]> = [
  ["GET /metadata", () => ok({ version: "19.5.0-ee", revision: "abc", enterprise: true })],
  ["GET /user", ({ token, world }) => ok({ ...Shapes.user(world.origin, token.user), bot: false })],
  ["GET /users", listUsers],
  ["GET /personal_access_tokens/self", ownToken],
  ["GET /projects", listProjects],
  ["GET /groups/{id}/projects", listGroupProjects]
]

const ofProject: ReadonlyArray<readonly [string, (context: ProjectContext) => Answer | Promise<Answer>]> = [
  ["GET ", ({ project, world }) => ok({ ...Shapes.basicProject(world.origin, project), archived: false })],
  ["GET /members/all/{user_id}", readMember],
  ["GET /repository/branches/{branch}", readBranch],
  ["GET /repository/commits/{sha}", readCommit],
  ["GET /repository/commits/{sha}/statuses", listStatuses],
  ["GET /labels/{name}", readLabel],
  ["GET /merge_requests", listMergeRequests],
  ["POST /merge_requests", openMergeRequest],
  ["GET /merge_requests/{iid}", withMergeRequest("iid", readMergeRequest)],
  ["PUT /merge_requests/{iid}", withMergeRequest("iid", updateMergeRequest)],
  ["GET /merge_requests/{iid}/pipelines", mergeRequestPipelines],
  ["GET /merge_requests/{iid}/notes", withMergeRequest("iid", listNotes)],
  ["POST /merge_requests/{iid}/notes", withMergeRequest("iid", addNote)],
  ["PUT /merge_requests/{iid}/notes/{note_id}", updateNote],
  ["GET /merge_requests/{iid}/resource_label_events", labelEvents("merge_requests")],
  ["GET /issues/{iid}/resource_label_events", labelEvents("issues")],
  ["GET /issues", listIssues],
  ["GET /issues/{iid}", readIssue],
  ["GET /pipelines", listPipelines],
  ["GET /events", listEvents]
]

const compile = <H>(routes: ReadonlyArray<readonly [string, H]>) =>
  routes.map(([route, handle]) => {
    const [method = "", path = ""] = route.split(" ")
    return { method, pattern: new RegExp(`^${path.replaceAll(/\{(\w+)\}/gu, "(?<$1>[^/]+)")}$`, "u"), handle }
  })
const serverRoutes = compile(ofServer)
const projectRoutes = compile(ofProject)

const match = <H>(
  routes: ReadonlyArray<{ readonly method: string; readonly pattern: RegExp; readonly handle: H }>,
  method: string,
  path: string
) => {
  for (const route of routes) {
    const found = route.method === method ? route.pattern.exec(path) : null
    if (found === null) continue
    const params = Object.entries(found.groups ?? {}).map(([name, value]) => [name, decodeURIComponent(value)])
    return { handle: route.handle, params: Object.fromEntries(params) as Record<string, string> }
  }
  return undefined
}

/** The token of an `Authorization`: `Bearer` for the API, `Basic` for git. */
export const tokenOf = (authorization: string | undefined): string => {
  const [, scheme = "", credentials = ""] = /^(\S+) +(\S+)$/u.exec(authorization ?? "") ?? []
  if (/^bearer$/iu.test(scheme)) return credentials
  return /^basic$/iu.test(scheme) ? /^oauth2:(.*)$/su.exec(Buffer.from(credentials, "base64").toString())?.[1] ?? "" : ""
}

const unauthorized = refuse(401, "401 Unauthorized")

export const answer = async (world: World, call: Call, authorization: string | undefined): Promise<Answer> => {
  const token = world.tokens.get(tokenOf(authorization))
  if (token === undefined || !token.isActive) return unauthorized
  if (!token.scopes.includes("api") && (call.method !== "GET" || !token.scopes.includes("read_api")) && call.path !== "/user") {
    const scope = {
      error: "insufficient_scope",
      error_description: "The request requires higher privileges than provided by the access token."
    }
    if (call.path !== "/personal_access_tokens/self") return { status: 403, body: { ...scope, scope: "api" } }
  }
  const general = match(serverRoutes, call.method, call.path)
  if (general !== undefined) return general.handle({ world, call, token, params: general.params })
  const [, id = "", rest = ""] = /^\/projects\/([^/]+)(\/.*)?$/u.exec(call.path) ?? []
  const named = decodeURIComponent(id)
  const project = findProject(world, named)
  const level = project === undefined ? 0 : levelOf(world, project, token.user)
  if (project === undefined || level === 0) return notFound("Project")
  if (named.includes("/") && !same(named, project.path)) {
    if (call.method !== "GET") return refuse(405, "405 Not Allowed")
    return { status: 302, headers: { location: `${world.origin}/api/v4/projects/${project.id}${rest}` } }
  }
  const found = match(projectRoutes, call.method, rest)
  if (found === undefined) return { status: 404, body: { error: "404 Not Found" } }
  return project.exclusively(async () => found.handle({ world, call, token, params: found.params, project, level }))
}

/** The one query that the adapter sends. GitLab answers refusals with status 200. */
export const graphql = (
  { projects, tokens, ...world }: World,
  body: Readonly<Record<string, unknown>>,
  authorization: string | undefined
): Answer => {
  const token = tokens.get(tokenOf(authorization))
  if (token === undefined || !token.isActive) return { status: 401, body: { errors: [{ message: "Invalid token" }] } }
  const { id } = (body["variables"] ?? {}) as { readonly id?: string }
  if (!/mergeRequest\(id: \$id\) \{ diffStatsSummary \{ additions deletions fileCount \} \}/u.test(String(body["query"]))) {
    return ok({ errors: [{ message: "Field doesn't exist on type 'Query'" }] })
  }
  const found = projects.filter((project) => levelOf({ projects, tokens, ...world }, project, token.user) >= REPORTER)
    .flatMap(({ mergeRequests }) => mergeRequests).find((one) => `gid://gitlab/MergeRequest/${one.id}` === id)
  const stats = found === undefined
    ? null
    : { additions: found.counts.additions, deletions: found.counts.deletions, fileCount: found.counts.changedFiles }
  return ok({ data: { mergeRequest: found === undefined ? null : { diffStatsSummary: stats } } })
}
