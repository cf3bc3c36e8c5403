/** The `slipway` command. */
import { nearest } from "@slipway/domain/text/EditDistance"
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"

const sandboxes = () => import("./client/SandboxCommands.ts")
const prompts = () => import("./client/RunPrompt.ts")

/** In the order of the help. `about` is here, so that the list of commands loads none of them. */
const work = {
  run: { about: "Have an agent work over your repositories, and follow it live", load: async () => (await prompts()).run },
  acp: {
    about: "Serve an editor as an agent, over the Agent Client Protocol",
    load: async () => (await import("./acp/Acp.ts")).acpCommand
  },
  ps: { about: "List sandboxes, with their states", load: async () => (await import("./client/Ps.ts")).ps },
  attach: { about: "Follow a sandbox live, and decide its approvals", load: async () => (await prompts()).attach },
  logs: { about: "Show the log of a sandbox", load: async () => (await sandboxes()).logs },
  message: { about: "Send a message: it starts the next turn, waits for it, or steers", load: async () => (await sandboxes()).message },
  shell: { about: "Open a shell in a running sandbox", load: async () => (await import("./shell/Shell.ts")).shell },
  approve: { about: "Approve or deny a tool call", load: async () => (await sandboxes()).approve },
  answer: { about: "Answer or dismiss a question of the agent", load: async () => (await import("./client/AnswerQuestion.ts")).answer },
  diff: { about: "Show the changes of a sandbox as a patch", load: async () => (await sandboxes()).diff },
  publish: { about: "Publish changes as a draft pull request", load: async () => (await sandboxes()).publish },
  comments: {
    about: "Show the comments on the pull request, and its checks",
    load: async () => (await import("./client/Comments.ts")).comments
  },
  feedback: {
    about: "Feedback on the pull request: show, request changes, continue",
    load: async () => (await import("./client/Feedback.ts")).feedback
  },
  sync: { about: "Get the newest commits of the source host", load: async () => (await sandboxes()).sync },
  artifacts: {
    about: "List or download files that the agent left for people",
    load: async () => (await import("./artifacts/Artifacts.ts")).artifacts
  },
  checkpoints: {
    about: "Checkpoints of sandboxes: list, restore",
    load: async () => (await import("./client/Checkpoints.ts")).checkpoints
  },
  open: { about: "Open the page of a sandbox in a browser", load: async () => (await sandboxes()).open },
  api: { about: "Send a request to the API", load: async () => (await import("./client/CallApi.ts")).api },
  stop: { about: "End a sandbox permanently, or only its turn", load: async () => (await sandboxes()).stop },
  archive: { about: "Hide sandboxes from lists", load: async () => (await sandboxes()).archive },
  unarchive: { about: "Show archived sandboxes in lists again", load: async () => (await sandboxes()).unarchive },
  delete: { about: "Delete ended sandboxes and their data for good", load: async () => (await sandboxes()).remove }
}

const repositories = {
  repos: {
    about: "Repositories of this machine: list, add, remove; aliases of repositories of any host",
    load: async () => (await import("./admin/Repos.ts")).repos
  },
  hosts: {
    about: "Source hosts of the service: list, check, sign-in, sign-out",
    load: async () => (await import("./admin/Hosts.ts")).hosts
  },
  pulls: {
    about: "Pull requests of these repositories: list, show, diff, close, merge",
    load: async () => (await import("./admin/Pulls.ts")).pulls
  },
  secrets: {
    about: "Secrets for setups: list, set, remove; trusted refs: trust, distrust, refs; the key: rekey",
    load: async () => (await import("./admin/Secrets.ts")).secrets
  },
  mcp: { about: "MCP servers of agents: list, add, connect, remove, tools", load: async () => (await import("./admin/Mcp.ts")).mcp },
  env: { about: "Environment files of repositories: check, run", load: async () => (await import("./service/Environments.ts")).env }
}

const access = {
  auth: { about: "Sign in to a server: login, status, logout", load: async () => (await import("./client/Auth.ts")).auth },
  "sign-in-link": {
    about: "Print a link that signs a person in to the pages",
    load: async () => (await import("./admin/SignInLink.ts")).signInLink
  },
  keys: { about: "API keys: list, create, revoke", load: async () => (await import("./admin/Keys.ts")).keys },
  "ci-trust": {
    about: "CIs that exchange their tokens for keys: list, add, remove",
    load: async () => (await import("./admin/CiTrust.ts")).ciTrust
  },
  grants: {
    about: "API access grants: list, create, set a budget, a retention or branches, revoke",
    load: async () => (await import("./admin/Grants.ts")).grants
  },
  users: { about: "Users: list, approve, disapprove", load: async () => (await import("./admin/Users.ts")).users },
  members: { about: "Members of an organization: list, add, remove", load: async () => (await import("./admin/Members.ts")).members },
  orgs: { about: "Organizations: list, create, suspend, resume", load: async () => (await import("./admin/Organizations.ts")).orgs },
  audit: { about: "Show the audit log of keys, grants, people and sessions", load: async () => (await import("./admin/Audit.ts")).audit }
}

const operate = {
  setup: { about: "Connect a provider of models", load: async () => (await import("./setup/Setup.ts")).setup },
  serve: { about: "Run the service until it is stopped", load: async () => (await import("./service/Serve.ts")).serve },
  demo: { about: "Show a whole run on a temporary server", load: async () => (await import("./demo/Demo.ts")).demo },
  agents: { about: "Agents of this machine: list, install", load: async () => (await import("./service/Agents.ts")).agents },
  models: { about: "List the models that sandboxes may use", load: async () => (await import("./setup/Models.ts")).models },
  doctor: { about: "Check what agents need on this machine", load: async () => (await import("./setup/Doctor.ts")).doctor },
  backup: { about: "Write a backup into a new folder", load: async () => (await import("./service/Backup.ts")).backup },
  restore: { about: "Make a data folder from a backup", load: async () => (await import("./service/Restore.ts")).restore },
  automations: {
    about: "Automations: schedules, webhooks, mentions and labels that create sandboxes",
    load: async () => (await import("./client/Automations.ts")).automations
  },
  "mcp-server": {
    about: "Offer sandboxes to agents and editors as tools (MCP on stdio)",
    load: async () => (await import("./mcp/McpServer.ts")).mcpServer
  },
  webhooks: {
    about: "Endpoints that receive the events of partner feeds",
    load: async () => (await import("./admin/Webhooks.ts")).webhooks
  },
  partners: {
    about: "Partners: claims of credits, projects, paid invoices, feeds",
    load: async () => (await import("./admin/Partners.ts")).partners
  },
  conformance: {
    about: "Check the rules of the interface on a server",
    load: async () => (await import("./client/Conformance.ts")).conformance
  }
}

const groups = { Work: work, Repositories: repositories, Access: access, Operate: operate }
const subcommands = { ...work, ...repositories, ...access, ...operate }
type Name = keyof typeof subcommands

const isName = (name: string | undefined): name is Name => name !== undefined && Object.hasOwn(subcommands, name)

/** Words that other tools have for these commands. */
const synonyms: Partial<Record<Name, ReadonlyArray<string>>> = {
  run: ["create", "new", "start"],
  ps: ["sandboxes", "sandbox", "list", "ls", "status"],
  acp: ["editor", "ide"],
  attach: ["follow", "watch"],
  shell: ["terminal", "ssh", "exec", "sh", "console"],
  logs: ["events"],
  message: ["send", "reply", "prompt"],
  approve: ["approvals", "deny"],
  answer: ["questions", "question", "dismiss"],
  feedback: ["review", "resume"],
  open: ["view", "web", "browse"],
  stop: ["terminate", "kill", "end", "interrupt"],
  delete: ["remove", "rm", "purge"],
  archive: ["hide"],
  repos: ["repositories"],
  "sign-in-link": ["signin", "sign-in"],
  serve: ["server", "up"]
}

/** The command that was probably meant by a word that none has; `null`: no command is near. */
export const meantBy = (word: string): string | null => {
  const names = new Map(Object.entries(synonyms).flatMap(([name, words]) => words.map((other) => [other, name] as const)))
  const near = nearest(word, [...Object.keys(subcommands), ...names.keys()])
  return near === null ? null : names.get(near) ?? near
}

/** Commands that list when they are called without a subcommand. */
const lists: ReadonlySet<string | undefined> = new Set<Name>(["automations", "ci-trust", "grants", "hosts", "keys", "mcp", "members",
  "orgs", "repos", "secrets", "users", "webhooks"])
const asksForHelp = (args: ReadonlyArray<string>) => args.some((arg) => ["--help", "-h", "--wizard"].includes(arg))

/** Former names of commands. They still work, and say the name that took their place. */
const renamed: ReadonlyMap<string | undefined, Name> = new Map([["login", "sign-in-link"]])

/** The message for a person who typed a former name; `null`: the name is that of today. */
export const renamedFrom = ([typed]: ReadonlyArray<string>): string | null => {
  const name = renamed.get(typed)
  return name === undefined ? null : `slipway ${typed} is now slipway ${name}. To sign in this command: slipway auth login`
}

/** The full form: `help run` is `run --help`, `version` is `--version`, `keys` is `keys list`. */
export const spelled = (args: ReadonlyArray<string>): ReadonlyArray<string> => {
  const [typed, ...rest] = args
  const first = renamed.get(typed) ?? typed
  if (first === "help") return spelled([...rest, "--help"])
  if (first === "version") return ["--version", ...rest]
  const [second = "-"] = rest
  return first !== undefined && lists.has(first) && second.startsWith("-") && !asksForHelp(rest) ?
    [first, "list", ...rest] :
    first === typed || first === undefined
    ? args
    : [first, ...rest]
}

const subcommand = Effect.fnUntraced(function*(name: Name, isWanted: boolean) {
  const { about, load } = subcommands[name]
  const shown = Command.make(name).pipe(Command.withShortDescription(about))
  if (!isWanted) return shown
  const command: Awaited<ReturnType<typeof load>> = yield* Effect.promise<Awaited<ReturnType<typeof load>>>(load)
  return Object.assign(command, { shortDescription: about })
})

const make = Effect.fnUntraced(function*(wanted: (name: Name) => boolean) {
  const entries = yield* Effect.forEach(Object.entries(groups), ([group, commands]) =>
    Effect.map(
      Effect.forEach(Object.keys(commands).filter(isName), (name) => subcommand(name, wanted(name))),
      (commands) => ({ group, commands })
    ))
  return Command.make("slipway").pipe(
    Command.withDescription("Coding agents in sandboxes over your git repositories, behind one HTTP API"),
    Command.withSubcommands(entries)
  )
})

/** With all of its subcommands, for reference pages and completion scripts. */
export const whole = make(() => true)

/**
 * The command for these arguments. Only the modules of the subcommand that they begin with are loaded; the list of commands loads none.
 * Flags before a subcommand, and completion scripts, need all.
 */
export const slipway = (args: ReadonlyArray<string>) => {
  const [name] = args
  if (isName(name)) return make((one) => one === name)
  return args.some((arg) => isName(arg) || arg.startsWith("--completions") || arg === "--wizard") ? whole : make(() => false)
}
