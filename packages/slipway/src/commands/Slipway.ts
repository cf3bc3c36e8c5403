/** The `slipway` command. */
import { Effect } from "effect"
import { Command } from "effect/cli"

const sandboxes = () => import("./client/SandboxCommands.ts")
const prompts = () => import("./client/RunPrompt.ts")

/** In the order of the help. */
const subcommands = {
  serve: async () => (await import("./service/Serve.ts")).serve,
  demo: async () => (await import("./demo/Demo.ts")).demo,
  run: async () => (await prompts()).run,
  ps: async () => (await sandboxes()).ps,
  attach: async () => (await prompts()).attach,
  logs: async () => (await sandboxes()).logs,
  message: async () => (await sandboxes()).message,
  approve: async () => (await sandboxes()).approve,
  diff: async () => (await sandboxes()).diff,
  publish: async () => (await sandboxes()).publish,
  stop: async () => (await sandboxes()).stop,
  login: async () => (await import("./admin/Login.ts")).login,
  auth: async () => (await import("./client/Auth.ts")).auth,
  keys: async () => (await import("./admin/Keys.ts")).keys,
  grants: async () => (await import("./admin/Grants.ts")).grants,
  users: async () => (await import("./admin/Users.ts")).users,
  members: async () => (await import("./admin/Members.ts")).members,
  orgs: async () => (await import("./admin/Organizations.ts")).orgs,
  partners: async () => (await import("./admin/Partners.ts")).partners,
  webhooks: async () => (await import("./admin/Webhooks.ts")).webhooks,
  repos: async () => (await import("./admin/Repos.ts")).repos,
  secrets: async () => (await import("./admin/Secrets.ts")).secrets,
  pulls: async () => (await import("./admin/Pulls.ts")).pulls,
  checkpoints: async () => (await import("./client/Checkpoints.ts")).checkpoints,
  env: async () => (await import("./service/Environments.ts")).env,
  agents: async () => (await import("./service/Agents.ts")).agents,
  setup: async () => (await import("./setup/Setup.ts")).setup,
  models: async () => (await import("./setup/Models.ts")).models,
  audit: async () => (await import("./admin/Audit.ts")).audit,
  backup: async () => (await import("./service/Backup.ts")).backup,
  restore: async () => (await import("./service/Restore.ts")).restore,
  doctor: async () => (await import("./setup/Doctor.ts")).doctor,
  conformance: async () => (await import("./client/Conformance.ts")).conformance
}

const isSubcommand = (name: string | undefined): name is keyof typeof subcommands => name !== undefined && Object.hasOwn(subcommands, name)

/**
 * The command for these arguments. If they begin with a subcommand, only its modules are loaded. Otherwise, as for `--help` or a
 * misspelled word, all are loaded.
 */
export const slipway = Effect.fnUntraced(function*([name]: ReadonlyArray<string>) {
  const wanted = isSubcommand(name) ? [subcommands[name]] : Object.values(subcommands)
  return Command.make("slipway").pipe(
    Command.withDescription("Coding agents in sandboxes over your git repositories, behind one HTTP API"),
    Command.withSubcommands(yield* Effect.promise(() => Promise.all(wanted.map((load) => load()))))
  )
})
