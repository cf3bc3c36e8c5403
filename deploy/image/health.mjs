/** Ends with 0 when the process of this container may be asked: a worker at an address that it has for that, if it has one. */
const { SLIPWAY_METRICS_ADDRESS: metrics, SLIPWAY_PORT: port = "4000", SLIPWAY_ROLE: role, SLIPWAY_WORKER_ADDRESS: trees } = process.env
const address = role === "worker" ? metrics ?? trees : `127.0.0.1:${port}`
if (address !== undefined) {
  const reply = await fetch(`http://${address}/readyz`)
  if (!reply.ok) {
    process.stderr.write(`${reply.status} ${await reply.text()}\n`)
    process.exitCode = 1
  }
}
