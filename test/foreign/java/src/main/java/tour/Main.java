package tour;

/** Main java|curator HOST:PORT,... */
public final class Main {
    private Main() {
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 2) {
            System.err.println("usage: Main java|curator HOST:PORT,...");
            System.exit(2);
        }
        String[] members = args[1].split(",");
        Checks checks = new Checks(args[0]);
        switch (args[0]) {
            case "java":
                for (int i = 0; i < members.length; i++) {
                    new ClientTour(checks, i, members).run();
                }
                break;
            case "curator":
                for (int i = 0; i < members.length; i++) {
                    new CuratorTour(checks, i, members).run();
                }
                break;
            default:
                System.err.println("no tour " + args[0]);
                System.exit(2);
        }
        checks.finish();
    }
}
