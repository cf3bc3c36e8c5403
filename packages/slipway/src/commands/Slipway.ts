/** The `slipway` command. */
import { Effect } from "effect"
import { Command } from "effect/cli"

const sandboxes = () => import("./SandboxCommands.ts")
const prompts = () => import("./RunPrompt.ts")

/** In the order of the help. */
const subcommands = {
  serve: async () => (await import("./Serve.ts")).serve,
  demo: async () => (await import("./Demo.ts")).demo,
  run: async () => (await prompts()).run,
  ps: async () => (await sandboxes()).ps,
  attach: async () => (await prompts()).attach,
  logs: async () => (await sandboxes()).logs,
  message: async () => (await sandboxes()).message,
  approve: async () => (await sandboxes()).approve,
  diff: async () => (await sandboxes()).diff,
  publish: async () => (await sandboxes()).publish,
  stop: async () => (await sandboxes()).stop,
  login: async () => (await import("./Login.ts")).login,
  auth: async () => (await import("./Auth.ts")).auth,
  keys: async () => (await import("./Keys.ts")).keys,
  grants: async () => (await import("./Grants.ts")).grants,
  users: async () => (await import("./Users.ts")).users,
  members: async () => (await import("./Members.ts")).members,
  orgs: async () => (await import("./Organizations.ts")).orgs,
  partners: async () => (await import("./Partners.ts")).partners,
  webhooks: async () => (await import("./Webhooks.ts")).webhooks,
  repos: async () => (await import("./Repos.ts")).repos,
  secrets: async () => (await import("./Secrets.ts")).secrets,
  pulls: async () => (await import("./Pulls.ts")).pulls,
  checkpoints: async () => (await import("./Checkpoints.ts")).checkpoints,
  env: async () => (await import("./Environments.ts")).env,
  agents: async () => (await import("./Agents.ts")).agents,
  models: async () => (await import("./Models.ts")).models,
  audit: async () => (await import("./Audit.ts")).audit,
  backup: async () => (await import("./Backup.ts")).backup,
  restore: async () => (await import("./Restore.ts")).restore,
  doctor: async () => (await import("./Doctor.ts")).doctor,
  conformance: async () => (await import("./Conformance.ts")).conformance
}

const isSubcommand = (name: string | undefined): name is keyof typeof subcommands => name !== undefined && Object.hasOwn(subcommands, name)

/**
 * The command for these arguments. With the subcommand that they begin with alone, whose modules are all that is loaded; with
 * every one where they begin otherwise, as with `--help` or a word that is to be corrected.
 */
export const slipway = Effect.fnUntraced(function*([name]: ReadonlyArray<string>) {
  const wanted = isSubcommand(name) ? [subcommands[name]] : Object.values(subcommands)
  return Command.make("slipway").pipe(
    Command.withDescription("Coding agents in sandboxes over your git repositories, behind one HTTP API"),
    Command.withSubcommands(yield* Effect.promise(() => Promise.all(wanted.map((load) => load()))))
  )
})
