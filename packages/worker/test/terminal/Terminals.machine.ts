/** Terminals in the boxes of every isolation that this machine has, and in machines with a runner. */
import * as Docker from "@slipway/docker/testing/docker.fixture"
import * as Bubblewrap from "@slipway/machine/testing/hosts/bubblewrap.fixture"
import * as Gvisor from "@slipway/machine/testing/hosts/gvisor.fixture"
import { running, workspaceFor } from "@slipway/machine/testing/hosts/Machine"
import * as Machines from "@slipway/runner/testing/Machines.fixture"
import { Effect } from "effect"
import { register } from "./TerminalRules.ts"

register({ kind: "bubblewrap", absent: Bubblewrap.absent, layer: Bubblewrap.layer(), running, workspace: workspaceFor })
register({ kind: "gVisor", absent: Gvisor.absent, layer: Gvisor.layer(), running: Gvisor.running, workspace: workspaceFor })
register({ kind: "Docker", absent: Docker.absent, layer: Docker.layer(), running, workspace: workspaceFor })

for (const kind of ["bubblewrap", "gvisor", "docker"] as const) {
  register({
    kind: `runners in ${kind}`,
    absent: Machines.absent(kind),
    layer: Machines.layer(kind),
    running: kind === "gvisor" ? Gvisor.running : running,
    // Its trees are in the machine.
    workspace: () => Effect.void
  })
}
