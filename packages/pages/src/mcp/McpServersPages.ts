/** `/mcp-servers`: where owners give MCP servers to the agents of repositories (docs/decisions/23). Credentials are never shown. */
import { type McpServerRecord, MAX_MCP_SERVERS } from "@slipway/domain/mcp/ports/McpServerStore"
import type { McpPermission } from "@slipway/domain/mcp/schema/McpServer"
import { McpServers } from "@slipway/domain/mcp/usecases/McpServers"
import { Effect, Redacted } from "effect"
import { HttpRouter } from "effect/http"
import { columnHeads, html, type Html } from "../html/Html.ts"
import { moment } from "../html/Moments.ts"
import * as Page from "../layout/Page.ts"
import { Refused } from "../layout/Refused.ts"

type Handler = Page.Handler<Page.Member>

const MESSAGES = {
  set: "MCP server saved. Agents that start from now on have it.",
  removed: "MCP server removed. Agents that start from now on do not have it.",
  permitted: "Permission saved. It counts for agents that start from now on."
}

/** The content of the form. The credential is never sent back. */
interface Draft {
  readonly repo: string
  readonly name: string
  readonly url: string
  readonly header: string
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

const row = (server: McpServerRecord): Html => {
  const { hasCredential, name, repo, setAt, settings } = server
  return html`
<tr>
<th scope="row"><a href="/mcp-servers/server?${query(server)}">${name}</a></th>
<td data-label="Repository">${repo}</td>
<td data-label="Address"><code>${settings.url}</code></td>
<td data-label="Credential">${hasCredential ? "Stored" : "None"}</td>
<td data-label="On by default">${settings.onByDefault ? "Yes" : "No"}</td>
<td data-label="Updated">${moment(setAt)}</td>
</tr>`
}

const NONE: Draft = { repo: "", name: "", url: "", header: "", onByDefault: true, problem: null }

const setForm = (csrf: Html, { header, name, onByDefault, problem, repo, url }: Draft): Html => {
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
<div class="field">
<label for="header">Header with the credential (optional)</label>
<input id="header" name="header" value="${header}" autocapitalize="none" spellcheck="false" placeholder="Authorization"${invalid}>
</div>
<div class="field">
<label for="credential">Credential (optional)</label>
<input id="credential" name="credential" type="password" autocomplete="off" aria-describedby="credential-hint"${invalid}>
<p class="hint" id="credential-hint">The whole value of the header, such as <code>Bearer …</code>. Stored encrypted, never shown again,
and never given to an agent. Left empty, a stored one stays if address and header are the same.</p>
</div>
<div class="field"><label><input type="checkbox" name="on" value="on"${onByDefault && html` checked`}> On by default</label></div>
<button>Set MCP server</button>
</form>`
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
  credential: "The credential",
  tool: "The tool"
}

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const { members } = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  const servers = yield* McpServers

  const page = Effect.fnUntraced(function*(member: Page.Member, told: Html | null, draft: Draft, status: number) {
    const all = yield* servers.list(member.visit.place.grantId, null)
    const table = html`<table class="rows"><caption class="unseen">MCP servers, by repository</caption>
<thead><tr>${columnHeads("Name", "Repository", "Address", "Credential", "On by default", "Updated")}</tr></thead>
<tbody>${all.map(row)}
</tbody></table>`
    const body = html`<h1>MCP servers</h1>
${told}
<p>Agents of a repository's sandboxes get the tools of its MCP servers. The service adds the credential on the way; no agent sees it.
A repository may have ${MAX_MCP_SERVERS}.</p>
${all.length === 0 ? html`<p>No MCP servers yet.</p>` : table}
${setForm(member.csrf, draft)}`
    return Page.show({ title: "MCP servers", place: "mcp-servers", body }, member, { status })
  })

  const show: Handler = (member, asked) =>
    page(member, Page.told(asked, MESSAGES), { ...NONE, repo: asked.url.searchParams.get("repo") ?? "" }, 200)

  const find = ({ visit }: Page.Member, repo: string, name: string) =>
    servers.find({ grantId: visit.place.grantId, repo, name }).pipe(Effect.catchTag("McpServerNotFound", () => Effect.fail(noServer)))

  const cannotSeal = ({ problem }: { readonly problem: string }) =>
    Effect.andThen(
      Effect.logError("credentials of MCP servers cannot be set", { problem }),
      new Refused({
        status: 503,
        title: "Credentials cannot be set now",
        text: "Nothing changed. The service has no usable key to encrypt with: its log says what an administrator can do."
      })
    )

  const set: Handler = Effect.fnUntraced(function*(member, { form }) {
    const { grantId } = member.visit.place
    const draft: Draft = {
      repo: (yield* form.one("repo")).trim(),
      name: (yield* form.one("name")).trim(),
      url: (yield* form.one("url")).trim(),
      header: (yield* form.one("header")).trim(),
      onByDefault: form.all("on").includes("on"),
      problem: null
    }
    const { header, name, onByDefault, repo, url } = draft
    const credential = yield* form.one("credential")
    const again = (problem: string, status: number) => page(member, null, { ...draft, problem }, status)
    const known = (yield* servers.list(grantId, repo)).find((server) => server.name === name)
    const settings = {
      url,
      authentication: header === "" ? { type: "none" } : { type: "header", name: header },
      onByDefault,
      tools: known?.settings.tools ?? {}
    }
    if (header === "" && credential !== "") return yield* again("The credential needs the name of its header.", 400)
    return yield* servers.set({ grantId, repo, name }, settings, credential === "" ? null : Redacted.make(credential)).pipe(
      Effect.as(Page.redirect("/mcp-servers?done=set")),
      Effect.catchTags({
        InvalidRequest: ({ field, reason }) => again(`${WORDS[field] ?? "This"} cannot be used: ${reason}.`, 400),
        McpServerRefused: ({ message, reason }) => reason === "grant" ? Effect.fail(revoked) : again(message, 409),
        SecretsUnusable: cannotSeal
      })
    )
  })

  const serverPage = (member: Page.Member, server: McpServerRecord, told: Html | null, problem: string | null, status: number) => {
    const { name, repo, settings } = server
    const header = settings.authentication.type === "header" ? settings.authentication.name : ""
    const draft: Draft = { repo, name, url: settings.url, header, onByDefault: settings.onByDefault, problem: null }
    const body = html`<h1>MCP server <code>${name}</code> of ${repo}</h1>
${told}
${toolForm(member.csrf, server, problem)}
${setForm(member.csrf, draft)}
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
          Effect.succeed(serverPage(member, server, null, `${WORDS[field] ?? "This"} cannot be used: ${reason}.`, 400)),
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

  yield* members("/mcp-servers", { GET: forOwners(show), POST: forOwners(set) })
  yield* members("/mcp-servers/server", { GET: forOwners(showOne) })
  yield* members("/mcp-servers/tools", { POST: forOwners(permit) })
  yield* members("/mcp-servers/remove", { GET: forOwners(askToRemove), POST: forOwners(remove) })
}))
