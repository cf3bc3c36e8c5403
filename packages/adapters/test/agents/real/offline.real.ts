import * as AgentRuntimeContract from "@slipway/domain/testing/AgentRuntimeContract"
import { layer, sandbox } from "./RealAgent.ts"

AgentRuntimeContract.suite("offline", layer, { profile: "offline", model: "offline/demo", sandbox: sandbox("offline") })
