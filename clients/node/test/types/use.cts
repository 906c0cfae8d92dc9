// The types of the package, as a user of CommonJS sees them. tools/check-node-client.sh compiles it.
import dibs = require("dibs");
import detectPort = require("dibs/detect-port");
import getPort = require("dibs/get-port");
import portfinder = require("dibs/portfinder");

async function ports(): Promise<number[]> {
    await using listener = await new dibs.Client().listen("web");
    return [listener.port, await getPort({ port: 80 }), await getPort.default(), await portfinder.getPort(), await detectPort.detect()];
}
export = ports;
