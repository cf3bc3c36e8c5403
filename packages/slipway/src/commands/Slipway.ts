/** The `slipway` command. */
import { Command } from "effect/cli"
import { agents } from "./Agents.ts"
import { audit } from "./Audit.ts"
import { auth } from "./Auth.ts"
import { backup } from "./Backup.ts"
import { checkpoints } from "./Checkpoints.ts"
import { conformance } from "./Conformance.ts"
import { demo } from "./Demo.ts"
import { doctor } from "./Doctor.ts"
import { env } from "./Environments.ts"
import { grants } from "./Grants.ts"
import { keys } from "./Keys.ts"
import { login } from "./Login.ts"
import { members } from "./Members.ts"
import { models } from "./Models.ts"
import { orgs } from "./Organizations.ts"
import { partners } from "./Partners.ts"
import { pulls } from "./Pulls.ts"
import { repos } from "./Repos.ts"
import { restore } from "./Restore.ts"
import { attach, run } from "./RunPrompt.ts"
import { approve, diff, logs, message, ps, publish, stop } from "./SandboxCommands.ts"
import { secrets } from "./Secrets.ts"
import { serve } from "./Serve.ts"
import { users } from "./Users.ts"
import { webhooks } from "./Webhooks.ts"

export const slipway = Command.make("slipway").pipe(
  Command.withDescription("Coding agents in sandboxes over your git repositories, behind one HTTP API"),
  Command.withSubcommands([serve, demo, run, ps, attach, logs, message, approve, diff, publish, stop, login, auth, keys, grants, users,
    members, orgs, partners, webhooks, repos, secrets, pulls, checkpoints, env, agents, models, audit, backup, restore, doctor,
    conformance])
)
