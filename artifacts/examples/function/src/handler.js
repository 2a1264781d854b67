// All there is to this application: a function.
module.exports = (request, response) => {
  response.end(`Hello from a function, version ${process.env.VERSION || "unknown"}\n`);
};
