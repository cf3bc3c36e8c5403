/** The offline agent: our program, run by our Node. */
import { ReasoningEffort } from "@slipway/domain/models/schema/ReasoningEffort"
import { fileURLToPath } from "node:url"
import type { Profile } from "../Profile.ts"

/** Beside this file in sources and builds. A box must see its folder. */
export const PROGRAM = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "../offline/OfflineAgent.main.ts" : "../offline/OfflineAgent.main.js", import.meta.url)
)

export const offline: Profile = {
  runtime: "opencode",
  dialect: "acp",
  acp: { steering: { method: "_slipway/steer", taken: "_slipway/steered" }, denialReason: "slipway/reason" },
  capabilities: {
    toolApprovals: true,
    images: true,
    reasoningEfforts: ReasoningEffort.literals,
    afterDenial: "goes on",
    countsRequests: false,
    bearsOtherPaths: { workspace: true, home: true },
    modelProtocol: null
  },
  program: null,
  conversationFiles: [".slipway-offline"],
  launch: ({ repositories, toolApprovalMode }, command) => ({
    command,
    args: [PROGRAM],
    env: { OFFLINE_AGENT: JSON.stringify({ repositories, asks: toolApprovalMode === "prompt" }) }
  })
}
