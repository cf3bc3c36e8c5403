/** The agents of this machine on the page of models, as a piece: its script shows how an installation gets on. */
import { Effect, Option } from "effect"
import { html, type Html } from "../html/Html.ts"
import * as Page from "../layout/Page.ts"
import { Refused } from "../layout/Refused.ts"
import { AgentInstaller, type InstallableAgent } from "./AgentInstaller.ts"

const button = (csrf: Html, { name, notice, version }: InstallableAgent, label: string): Html =>
  html`<form method="post" action="/models/install">${csrf}<input type="hidden" name="agent" value="${name}">
<button aria-label="${label} ${name}" aria-describedby="${name}-notice">${label}</button>
<p class="hint" id="${name}-notice">Version ${version} from the npm registry. ${notice}</p></form>`

const stateOf = (csrf: Html, agent: InstallableAgent, problem: string | null): Html => {
  const { detail, name, state, version } = agent
  if (state === "installed") return html`Installed, version ${version}`
  if (state === "installing") return html`Installing… ${detail}`
  const isAgain = state === "failed"
  const failure = isAgain && html`<p class="problem" role="alert">Not installed: ${detail}</p>`
  return html`${failure}${problem === null ? button(csrf, agent, isAgain ? "Retry" : "Install") : html`${problem} ${name}`}`
}

/** `problem`: why they cannot be installed from here; `null`: they can. */
const agentList = (csrf: Html, agents: ReadonlyArray<InstallableAgent>, problem: string | null): Html => {
  const rows = agents.map((agent) => {
    const state = stateOf(csrf, agent, problem)
    return html`<tr><th scope="row">${agent.name}</th><td data-label="State">${state}</td></tr>
`
  })
  return html`<section id="agents" data-piece="agents" aria-labelledby="agents-head"><h2 id="agents-head">Agents</h2>
<table class="rows"><caption class="unseen">Agents of this machine</caption>
<tbody>${rows}</tbody></table></section>`
}

/** For a process that runs no agents. */
const byCommand = html`<p>A missing agent is installed on the machine of a worker, and used without a restart:
<code>slipway agents install NAME</code>.</p>`

/** For browsers without scripts. */
const refreshing = html`<noscript><meta http-equiv="refresh" content="5"></noscript>`

/** For `board.js`. */
const watched = html`<p class="fine"><span id="watching" role="status"></span></p>
<div id="watched" data-look="/models/state"></div>`

const noAgent = Refused.notFound("This service does not install an agent with that name.")

/** The list, and the handler of its forms. */
export const make = Effect.gen(function*() {
  const installer = Option.getOrNull(yield* Effect.serviceOption(AgentInstaller))
  const install: Page.Handler<Page.Member> = Effect.fnUntraced(function*(_member, { form }) {
    const isBegun = installer !== null && (yield* installer.problem) === null && (yield* installer.install(yield* form.one("agent")))
    return isBegun ? Page.redirect("/models#agents") : yield* noAgent
  })
  /** `piece`: changes while the page is open. `around`: keeps it up to date. */
  const list = Effect.fnUntraced(function*({ csrf }: Page.Member) {
    if (installer === null) return { piece: byCommand, around: null, scripts: [] }
    const agents = yield* installer.agents
    const isInstalling = agents.some(({ state }) => state === "installing")
    return {
      piece: agentList(csrf, agents, yield* installer.problem),
      around: html`${isInstalling && refreshing}${watched}`,
      scripts: ["board.js"]
    }
  })
  return { install, list }
})
