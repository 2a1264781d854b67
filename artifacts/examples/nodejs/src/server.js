'use strict';

const http = require('node:http');

const version = process.env.VERSION || 'dev';

const server = http.createServer((request, response) => {
  if (request.url !== '/') {
    response.writeHead(404).end('not found\n');
    return;
  }
  response.setHeader('Content-Type', 'text/plain; charset=utf-8');
  response.end(`Hello from Node.js, version ${version}\n`);
});

// As process 1 of its container node has no default action for a signal: without
// a handler it would live on until it is killed, 30 seconds later. No new requests
// come in then: a pod that build-controller deploys gets its SIGTERM some seconds
// after it was taken out of the Service.
for (const signal of ['SIGTERM', 'SIGINT']) {
  process.once(signal, () => {
    console.log('asked to stop');
    server.close(() => console.log('stopped')); // when the running requests are done
    server.closeIdleConnections(); // node 18 would wait for them too
  });
}

server.listen(8080, () => console.log(`version ${version} listens on :8080`));
