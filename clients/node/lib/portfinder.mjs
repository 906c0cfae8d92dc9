// SPDX-License-Identifier: MIT
import portfinder from "./portfinder.cjs";

export const {
    basePort, highestPort, basePath, setBasePort, setHighestPort, setBasePath, nextPort, nextSocket, getPort, getPorts,
    getSocket, getPortPromise, getPortsPromise, getSocketPromise,
} = portfinder;
export default portfinder;
