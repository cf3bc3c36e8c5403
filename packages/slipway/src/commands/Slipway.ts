/** The `slipway` command. */
import { Command } from "effect/cli"
import { agents } from "./Agents.ts"
import { audit } from "./Audit.ts"
import { conformance } from "./Conformance.ts"
import { demo } from "./Demo.ts"
import { doctor } from "./Doctor.ts"
import { grants } from "./Grants.ts"
import { keys } from "./Keys.ts"
import { login } from "./Login.ts"
import { members } from "./Members.ts"
import { models } from "./Models.ts"
import { orgs } from "./Organizations.ts"
import { partners } from "./Partners.ts"
import { pulls } from "./Pulls.ts"
import { repos } from "./Repos.ts"
import { serve } from "./Serve.ts"
import { users } from "./Users.ts"
import { webhooks } from "./Webhooks.ts"

export const slipway = Command.make("slipway").pipe(
  Command.withDescription("Coding agents in sandboxes over your git repositories, behind one HTTP API"),
  Command.withSubcommands([serve, demo, login, keys, grants, users, members, orgs, partners, webhooks, repos, pulls, agents, models, audit,
    doctor, conformance])
)
