/** `/mcp-servers`: where owners give MCP servers to the agents of repositories (docs/decisions/23). Credentials are never shown. */
import { type McpServerRecord, MAX_MCP_SERVERS } from "@slipway/domain/mcp/ports/McpServerStore"
import { runsCommand } from "@slipway/domain/mcp/rules/McpServers"
import type { McpPermission } from "@slipway/domain/mcp/schema/McpServer"
import { McpConnections } from "@slipway/domain/mcp/usecases/McpConnections"
import { McpServers } from "@slipway/domain/mcp/usecases/McpServers"
import { Settings } from "@slipway/http/server/Settings"
import { Effect, Redacted } from "effect"
import { HttpRouter } from "effect/http"
import { columnHeads, html, type Html } from "../html/Html.ts"
import { moment } from "../html/Moments.ts"
import * as Page from "../layout/Page.ts"
import { Refused } from "../layout/Refused.ts"
import { type CommandDraft, commandForm, draftOf, NO_COMMAND, read as readCommand } from "./McpCommandForm.ts"

/** Where the browser comes back from an authorization server. */
const CALLBACK = "/mcp-servers/connected"

type Handler = Page.Handler<Page.Member>

const MESSAGES = {
  set: "MCP server saved. Agents that start from now on have it.",
  removed: "MCP server removed. Agents that start from now on do not have it.",
  permitted: "Permission saved. It counts for agents that start from now on.",
  connected: "MCP server connected. Agents that start from now on have it."
}

/** The content of the form. The credential is never sent back. */
interface Draft {
  readonly repo: string
  readonly name: string
  readonly url: string
  readonly header: string
  readonly isOAuth: boolean
  readonly clientId: string
  readonly scope: string
  readonly onByDefault: boolean
  /** Why it was refused. */
  readonly problem: string | null
}

const noServer = Refused.notFound("MCP server not found.")
const revoked = new Refused({ status: 409, title: "The grant is revoked", text: "Nothing changed. Choose another grant." })
const notTheirs = new Refused({ status: 403, title: "MCP servers are for owners", text: "Ask an owner of your organization." })

/** Admits owners; others do not learn whether there are any servers. */
const forOwners = (handler: Handler): Handler => (member, asked) =>
  member.visit.place.role === "owner" ? handler(member, asked) : Effect.fail(notTheirs)

const query = ({ name, repo }: { readonly name: string; readonly repo: string }) => new URLSearchParams({ repo, name }).toString()

const PERMISSIONS: Readonly<Record<McpPermission | "default", string>> = {
  default: "As the sandbox's approvals say",
  allow: "Allow",
  ask: "Ask a person",
  deny: "Deny"
}

/** The service identifies itself with it. */
const stateOf = ({ connection, hasCredential, settings }: McpServerRecord): string =>
  runsCommand(settings) || settings.authentication.type !== "oauth"
    ? hasCredential ? "Stored" : "None"
    : connection === null
    ? "Not connected"
    : connection.problem === null
    ? "Connected"
    : "Connect again"

const row = (server: McpServerRecord): Html => {
  const { name, repo, setAt, settings } = server
  const place = runsCommand(settings) ? [settings.command, ...settings.arguments].join(" ") : settings.url
  return html`
<tr>
<th scope="row"><a href="/mcp-servers/server?${query(server)}">${name}</a></th>
<td data-label="Repository">${repo}</td>
<td data-label="Address or command"><code>${place}</code></td>
<td data-label="Credential">${stateOf(server)}</td>
<td data-label="On by default">${settings.onByDefault ? "Yes" : "No"}</td>
<td data-label="Updated">${moment(setAt)}</td>
</tr>`
}

const NONE: Draft = {
  repo: "",
  name: "",
  url: "",
  header: "",
  isOAuth: false,
  clientId: "",
  scope: "",
  onByDefault: true,
  problem: null
}

/** The fields about how the service identifies itself to the server. */
const authenticationFields = ({ clientId, header, isOAuth, scope }: Draft, invalid: Html | false): Html =>
  html`<div class="field">
<label for="authentication">Authentication</label>
<select id="authentication" name="authentication">
<option value="header"${!isOAuth && html` selected`}>None, or a header with a credential</option>
<option value="oauth"${isOAuth && html` selected`}>OAuth: you connect the server in your browser</option>
</select>
</div>
<div class="field">
<label for="header">Header with the credential (optional, without OAuth)</label>
<input id="header" name="header" value="${header}" autocapitalize="none" spellcheck="false" placeholder="Authorization"${invalid}>
</div>
<div class="field">
<label for="clientId">Client id (optional, with OAuth)</label>
<input id="clientId" name="clientId" value="${clientId}" autocapitalize="none" spellcheck="false" aria-describedby="client-hint"${invalid}>
<p class="hint" id="client-hint">Only if the server's authorization server does not register clients by itself.</p>
</div>
<div class="field">
<label for="scope">Scopes (optional, with OAuth)</label>
<input id="scope" name="scope" value="${scope}" autocapitalize="none" spellcheck="false" aria-describedby="scope-hint"${invalid}>
<p class="hint" id="scope-hint">Separated by spaces. Left empty, the service asks for those that the server names.</p>
</div>
<div class="field">
<label for="credential">Credential (optional)</label>
<input id="credential" name="credential" type="password" autocomplete="off" aria-describedby="credential-hint"${invalid}>
<p class="hint" id="credential-hint">The whole value of the header, such as <code>Bearer …</code>, or the secret of the client id. Stored
encrypted, never shown again, and never given to an agent. Left empty, a stored one stays if address and header or client id are the
same.</p>
</div>`

const setForm = (csrf: Html, draft: Draft): Html => {
  const { name, onByDefault, problem, repo, url } = draft
  const invalid = problem !== null && html` aria-errormessage="problem"`
  return html`<form method="post" action="/mcp-servers" class="panel" aria-labelledby="set" autocomplete="off">
<h2 id="set">Set an MCP server</h2>
${csrf}
${problem !== null && html`<p class="problem" role="alert" id="problem">${problem}</p>`}
<div class="field">
<label for="repo">Repository</label>
<input id="repo" name="repo" value="${repo}" required autocapitalize="none" spellcheck="false" placeholder="owner/name"${invalid}>
</div>
<div class="field">
<label for="name">Name</label>
<input id="name" name="name" value="${name}" required autocapitalize="none" spellcheck="false" placeholder="wiki"
aria-describedby="name-hint"${invalid}>
<p class="hint" id="name-hint">Small letters, digits and hyphens. An existing server gets these settings.</p>
</div>
<div class="field">
<label for="url">Address</label>
<input id="url" name="url" value="${url}" required autocapitalize="none" spellcheck="false" placeholder="https://mcp.example.com/mcp"
aria-describedby="url-hint"${invalid}>
<p class="hint" id="url-hint">Streamable HTTP. The service connects to this address alone.</p>
</div>
${authenticationFields(draft, invalid)}
<div class="field"><label><input type="checkbox" name="on" value="on"${onByDefault && html` checked`}> On by default</label></div>
<button>Set MCP server</button>
</form>`
}

/** The state of a connection by OAuth, and the form that begins one. */
const connectForm = (csrf: Html, { connection, name, repo }: McpServerRecord): Html => {
  const state = connection === null
    ? html`<p class="warning">Not connected: agents do not have this server.</p>`
    : connection.problem === null
    ? html`<p>Connected ${moment(connection.connectedAt)}. The service renews the connection.</p>`
    : html`<p class="problem">Connect again: ${connection.problem}</p>`
  return html`<h2>Connection</h2>
${state}
<form method="post" action="/mcp-servers/connect">${csrf}<input type="hidden" name="repo" value="${repo}">
<input type="hidden" name="name" value="${name}"><button>${connection === null ? "Connect" : "Connect again"}</button></form>`
}

const permissionOptions = (chosen: McpPermission | "default"): ReadonlyArray<Html> =>
  Object.entries(PERMISSIONS).map(([value, text]) =>
    html`<option value="${value}"${value === chosen && html` selected`}>${text}</option>
`
  )

const toolForm = (csrf: Html, { name, repo, settings }: McpServerRecord, problem: string | null): Html => {
  const tools = Object.entries(settings.tools).toSorted(([a], [b]) => a < b ? -1 : 1)
  const rows = tools.map(([tool, permission]) =>
    html`
<tr><th scope="row"><code>${tool}</code></th><td data-label="Permission">${PERMISSIONS[permission]}</td></tr>`
  )
  const table = html`<table class="rows"><caption class="unseen">Permissions, by tool</caption>
<thead><tr>${columnHeads("Tool", "Permission")}</tr></thead>
<tbody>${rows}
</tbody></table>`
  const invalid = problem !== null && html` aria-errormessage="tool-problem"`
  return html`<h2>Permissions</h2>
<p>A tool without a permission of its own asks a person where the sandbox's approvals ask about edits and commands; else it is allowed. The
service itself decides about each call.</p>
${tools.length > 0 && table}
<form method="post" action="/mcp-servers/tools" class="panel" aria-labelledby="permit" autocomplete="off">
<h2 id="permit">Set a permission</h2>
${csrf}
<input type="hidden" name="repo" value="${repo}"><input type="hidden" name="name" value="${name}">
${problem !== null && html`<p class="problem" role="alert" id="tool-problem">${problem}</p>`}
<div class="field">
<label for="tool">Tool</label>
<input id="tool" name="tool" required autocapitalize="none" spellcheck="false" placeholder="create_page"${invalid}>
</div>
<div class="field">
<label for="permission">Permission</label>
<select id="permission" name="permission">
${permissionOptions("ask")}</select>
</div>
<button>Set permission</button>
</form>`
}

/** Names of fields for people: a refusal has those for programs. */
const WORDS: Readonly<Record<string, string>> = {
  repo: "The repository",
  name: "The name",
  url: "The address",
  "authentication.name": "The header",
  "authentication.clientId": "The client id",
  "authentication.scope": "The scopes",
  credential: "The credential",
  command: "The program",
  arguments: "The arguments",
  variables: "The names of the variables",
  values: "The values of the variables",
  tool: "The tool"
}

const wordOf = (field: string): string => WORDS[field] ?? WORDS[field.split(/[.[]/u, 1)[0] ?? ""] ?? "This"

type Servers = McpServers["Service"]

const cannotSeal = ({ problem }: { readonly problem: string }) =>
  Effect.andThen(
    Effect.logError("credentials of MCP servers cannot be set", { problem }),
    new Refused({
      status: 503,
      title: "Credentials cannot be set now",
      text: "Nothing changed. The service has no usable key to encrypt with: its log says what an administrator can do."
    })
  )

/** The list of servers, and the form that sets one. */
const listing = (servers: Servers) => {
  const page = Effect.fnUntraced(function*(
    member: Page.Member,
    told: Html | null,
    draft: Draft,
    status: number,
    command: CommandDraft = { ...NO_COMMAND, repo: draft.repo }
  ) {
    const all = yield* servers.list(member.visit.place.grantId, null)
    const table = html`<table class="rows"><caption class="unseen">MCP servers, by repository</caption>
<thead><tr>${columnHeads("Name", "Repository", "Address or command", "Credential", "On by default", "Updated")}</tr></thead>
<tbody>${all.map(row)}
</tbody></table>`
    const body = html`<h1>MCP servers</h1>
${told}
<p>Agents of a repository's sandboxes get the tools of its MCP servers. A server has an address, and the service adds the credential on the
way, which no agent sees; or it is a command in the sandbox's box. A repository may have ${MAX_MCP_SERVERS}.</p>
${all.length === 0 ? html`<p>No MCP servers yet.</p>` : table}
${setForm(member.csrf, draft)}
${commandForm(member.csrf, command)}`
    return Page.show({ title: "MCP servers", place: "mcp-servers", body }, member, { status })
  })

  const show: Handler = (member, asked) =>
    page(member, Page.told(asked, MESSAGES), { ...NONE, repo: asked.url.searchParams.get("repo") ?? "" }, 200)

  const setCommand: Handler = Effect.fnUntraced(function*(member, { form }) {
    const { grantId } = member.visit.place
    const repo = (yield* form.one("repo")).trim()
    const name = (yield* form.one("name")).trim()
    const fields = {
      command: yield* form.one("command"),
      variables: (yield* form.maybe("variables")) ?? "",
      isCleared: form.all("clear").includes("on")
    }
    const onByDefault = form.all("on").includes("on")
    const known = (yield* servers.list(grantId, repo)).find((server) => server.name === name)?.settings
    const stored = known !== undefined && runsCommand(known) ? known.variables : []
    const draft: CommandDraft = { repo, name, command: fields.command, stored, onByDefault, problem: null }
    const again = (problem: string, status: number) => page(member, null, NONE, status, { ...draft, problem })
    const given = readCommand(fields, stored)
    if ("problem" in given) return yield* again(given.problem, 400)
    const settings = { ...given.settings, onByDefault, tools: known?.tools ?? {} }
    return yield* servers.set({ grantId, repo, name }, settings, given.credential).pipe(
      Effect.as(Page.redirect("/mcp-servers?done=set")),
      Effect.catchTags({
        InvalidRequest: ({ field, reason }) => again(`${wordOf(field)} cannot be used: ${reason}.`, 400),
        McpServerRefused: ({ message, reason }) => reason === "grant" ? Effect.fail(revoked) : again(message, 409),
        SecretsUnusable: cannotSeal
      })
    )
  })

  const set: Handler = Effect.fnUntraced(function*(member, asked) {
    const { form } = asked
    if ((yield* form.maybe("command")) !== null) return yield* setCommand(member, asked)
    const { grantId } = member.visit.place
    const draft: Draft = {
      repo: (yield* form.one("repo")).trim(),
      name: (yield* form.one("name")).trim(),
      url: (yield* form.one("url")).trim(),
      header: ((yield* form.maybe("header")) ?? "").trim(),
      isOAuth: (yield* form.maybe("authentication")) === "oauth",
      clientId: ((yield* form.maybe("clientId")) ?? "").trim(),
      scope: ((yield* form.maybe("scope")) ?? "").trim(),
      onByDefault: form.all("on").includes("on"),
      problem: null
    }
    const { clientId, header, isOAuth, name, onByDefault, repo, scope, url } = draft
    const credential = yield* form.one("credential")
    const again = (problem: string, status: number) => page(member, null, { ...draft, problem }, status)
    const known = (yield* servers.list(grantId, repo)).find((server) => server.name === name)
    const authentication = isOAuth
      ? { type: "oauth", ...(clientId === "" ? {} : { clientId }), ...(scope === "" ? {} : { scope }) }
      : header === ""
      ? { type: "none" }
      : { type: "header", name: header }
    const settings = { url, authentication, onByDefault, tools: known?.settings.tools ?? {} }
    if (isOAuth && header !== "") return yield* again("With OAuth there is no header with a credential.", 400)
    if (isOAuth && clientId === "" && credential !== "") return yield* again("The credential needs its client id.", 400)
    if (!isOAuth && header === "" && credential !== "") return yield* again("The credential needs the name of its header.", 400)
    return yield* servers.set({ grantId, repo, name }, settings, credential === "" ? null : Redacted.make(credential)).pipe(
      Effect.map((server) => Page.redirect(isOAuth ? `/mcp-servers/server?${query(server)}&done=set` : "/mcp-servers?done=set")),
      Effect.catchTags({
        InvalidRequest: ({ field, reason }) => again(`${wordOf(field)} cannot be used: ${reason}.`, 400),
        McpServerRefused: ({ message, reason }) => reason === "grant" ? Effect.fail(revoked) : again(message, 409),
        SecretsUnusable: cannotSeal
      })
    )
  })

  return { show, set }
}

/** The form of a server's kind, with its settings. */
const settingsForm = (csrf: Html, { name, repo, settings }: McpServerRecord): Html => {
  if (runsCommand(settings)) return commandForm(csrf, draftOf(repo, name, settings))
  const { authentication, onByDefault, url } = settings
  return setForm(csrf, {
    repo,
    name,
    url,
    header: authentication.type === "header" ? authentication.name : "",
    isOAuth: authentication.type === "oauth",
    clientId: authentication.type === "oauth" ? authentication.clientId ?? "" : "",
    scope: authentication.type === "oauth" ? authentication.scope ?? "" : "",
    onByDefault,
    problem: null
  })
}

/** The page of one server, the permissions of its tools, and its removal. */
const ofServer = (servers: Servers) => {
  const find = ({ visit }: Page.Member, repo: string, name: string) =>
    servers.find({ grantId: visit.place.grantId, repo, name }).pipe(Effect.catchTag("McpServerNotFound", () => Effect.fail(noServer)))

  const serverPage = (member: Page.Member, server: McpServerRecord, told: Html | null, problem: string | null, status: number) => {
    const { name, repo, settings } = server
    const body = html`<h1>MCP server <code>${name}</code> of ${repo}</h1>
${told}
${!runsCommand(settings) && settings.authentication.type === "oauth" && connectForm(member.csrf, server)}
${toolForm(member.csrf, server, problem)}
${settingsForm(member.csrf, server)}
<p><a href="/mcp-servers/remove?${query(server)}">Remove this MCP server</a></p>`
    return Page.show({ title: `MCP server ${name}`, place: "mcp-servers", body }, member, { status })
  }

  const showOne: Handler = Effect.fnUntraced(function*(member, asked) {
    const { searchParams } = asked.url
    const server = yield* find(member, searchParams.get("repo") ?? "", searchParams.get("name") ?? "")
    return serverPage(member, server, Page.told(asked, MESSAGES), null, 200)
  })

  const permit: Handler = Effect.fnUntraced(function*(member, { form }) {
    const server = yield* find(member, yield* form.one("repo"), yield* form.one("name"))
    const { name, repo } = server
    const tool = (yield* form.one("tool")).trim()
    const chosen = yield* form.one("permission")
    const permission = chosen === "allow" || chosen === "ask" || chosen === "deny" ? chosen : null
    return yield* servers.permit({ grantId: member.visit.place.grantId, repo, name }, tool, permission).pipe(
      Effect.as(Page.redirect(`/mcp-servers/server?${query(server)}&done=permitted`)),
      Effect.catchTags({
        InvalidRequest: ({ field, reason }) =>
          Effect.succeed(serverPage(member, server, null, `${wordOf(field)} cannot be used: ${reason}.`, 400)),
        McpServerNotFound: () => Effect.fail(noServer),
        McpServerRefused: () => Effect.fail(revoked),
        SecretsUnusable: cannotSeal
      })
    )
  })

  const askToRemove: Handler = Effect.fnUntraced(function*(member, { url }) {
    const { name, repo } = yield* find(member, url.searchParams.get("repo") ?? "", url.searchParams.get("name") ?? "")
    const body = html`<h1>Remove <code>${name}</code>?</h1>
<p>The settings and the credential of the MCP server <code>${name}</code> of ${repo} are deleted permanently.</p>
<div class="actions">
<form method="post" action="/mcp-servers/remove">${member.csrf}<input type="hidden" name="repo" value="${repo}">
<input type="hidden" name="name" value="${name}"><button class="danger">Remove MCP server</button></form>
<a class="button quiet" href="/mcp-servers">Cancel</a>
</div>`
    return Page.show({ title: `Remove ${name}?`, place: "mcp-servers", body }, member)
  })

  const remove: Handler = Effect.fnUntraced(function*(member, { form }) {
    yield* servers.remove({ grantId: member.visit.place.grantId, repo: yield* form.one("repo"), name: yield* form.one("name") })
    return Page.redirect("/mcp-servers?done=removed")
  }, Effect.catchTag("McpServerNotFound", () => Effect.fail(noServer)))

  return { showOne, permit, askToRemove, remove }
}

/** Connecting a server by OAuth: the browser goes to its authorization server and comes back. */
const connecting = (servers: Servers, connections: McpConnections["Service"], publicUrl: string) => {
  const by = ({ user }: Page.Member) => `user/${user.id}`
  const notConnected = (status: 400 | 409, text: string) => new Refused({ status, title: "The MCP server is not connected", text })

  const connect: Handler = Effect.fnUntraced(function*(member, { form }) {
    const { grantId } = member.visit.place
    const key = { grantId, repo: yield* form.one("repo"), name: yield* form.one("name") }
    const { name, repo } = yield* servers.find(key)
    const address = yield* connections.begin({ grantId, repo, name }, `${publicUrl}${CALLBACK}`, by(member))
    const { host } = new URL(address)
    // A link, because forms lead nowhere else, and so that the person sees where they go.
    const body = html`<h1>Connect <code>${name}</code> of ${repo}</h1>
<p>The MCP server asks you to agree at <strong>${host}</strong>. Agents of this repository then use its tools as you, without seeing your
credential. Continue only if you know this address. You have 10 minutes.</p>
<div class="actions"><a class="button" href="${address}" rel="noreferrer">Continue to ${host}</a>
<a class="button quiet" href="/mcp-servers/server?${query({ name, repo })}">Cancel</a></div>`
    return Page.show({ title: `Connect ${name}`, place: "mcp-servers", body }, member)
  }, (self) =>
    Effect.catchTags(self, {
      McpConnectRefused: ({ detail }) => Effect.fail(notConnected(409, detail)),
      McpServerNotFound: () => Effect.fail(noServer),
      SecretsUnusable: cannotSeal
    }))

  const comeBack: Handler = (member, { url }) =>
    connections.finish(member.visit.place.grantId, url.searchParams, by(member)).pipe(
      Effect.map((server) => Page.redirect(`/mcp-servers/server?${query(server)}&done=connected`)),
      Effect.catchTags({
        McpConnectRefused: ({ detail }) => Effect.fail(notConnected(400, detail)),
        SecretsUnusable: cannotSeal
      })
    )

  return { connect, comeBack }
}

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const { members } = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  const servers = yield* McpServers
  const { set, show } = listing(servers)
  const { askToRemove, permit, remove, showOne } = ofServer(servers)
  const { publicUrl } = yield* Settings
  const { comeBack, connect } = connecting(servers, yield* McpConnections, publicUrl)

  yield* members("/mcp-servers", { GET: forOwners(show), POST: forOwners(set) })
  yield* members("/mcp-servers/server", { GET: forOwners(showOne) })
  yield* members("/mcp-servers/tools", { POST: forOwners(permit) })
  yield* members("/mcp-servers/connect", { POST: forOwners(connect) })
  yield* members(CALLBACK, { GET: forOwners(comeBack) })
  yield* members("/mcp-servers/remove", { GET: forOwners(askToRemove), POST: forOwners(remove) })
}))
