import manifest from "../package.json" with { type: "json" }

/** The client's name for protocols that ask for it. */
export const clientInfo = { name: "slipway", title: "Slipway", version: manifest.version }
