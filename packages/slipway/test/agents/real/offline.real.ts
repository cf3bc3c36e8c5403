import * as AgentRuntimeContract from "@slipway/testing/contracts/sandbox/AgentRuntimeContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Effect } from "effect"
import { chooseHost, moved, sandbox } from "./RealAgent.ts"

// `npm test` has it on host none.
const { layer, name } = await Effect.runPromise(chooseHost)
register(AgentRuntimeContract.suite(`offline on host ${name}`, layer, {
  profile: "offline",
  model: "offline/demo",
  // It asks no model.
  sandbox: Effect.map(sandbox("offline"), ({ asked: _asked, ...made }) => made),
  moved: moved(layer, "offline")
}))
